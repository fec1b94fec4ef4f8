// The options that say what things cost, shared by simulate and compare.
#pragma once

#include <optional>
#include <string>

#include "chimera/cli/schedule_options.h"
#include "chimera/simulate/costs.h"

namespace chimera {

struct CostOptions {
  DurationOptions durations;
  double latency = 0;
  std::optional<double> bandwidth, message_bytes;
  std::string reduce_time;  // one number, or one for each stage; empty: 0
  double step_time = 0;

  void add(CLI::App& app);
  [[nodiscard]] Costs costs(int stages) const;  // throws Error
};

}  // namespace chimera
