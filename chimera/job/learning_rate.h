// The learning rate of each step: linear warm-up, then a half cosine down to a tenth.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "chimera/job/config.h"

namespace chimera {

// Of step 0 .. steps - 1. The first step after warm-up has the full rate, the last one a tenth.
[[nodiscard]] inline double learning_rate(const TrainConfig& config, std::int64_t step) {
  constexpr double kFloor = 0.1;
  if (step < config.warmup_steps) {
    return config.learning_rate * static_cast<double>(step + 1) /
           static_cast<double>(config.warmup_steps);
  }
  const auto last = static_cast<double>(std::max<std::int64_t>(config.steps - 1, 1));
  const auto first = std::min(static_cast<double>(config.warmup_steps), last);
  const double done = last > first ? (static_cast<double>(step) - first) / (last - first) : 0;
  const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * std::clamp(done, 0.0, 1.0)));
  return config.learning_rate * (kFloor + (1 - kFloor) * cosine);
}

}  // namespace chimera
