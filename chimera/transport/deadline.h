// A time limit in seconds, as the point in time that condition variables wait for.
#pragma once

#include <algorithm>
#include <chrono>

namespace chimera {

using Clock = std::chrono::steady_clock;

// wait_s from now; at once for a negative wait, in some thirty years for an endless one.
[[nodiscard]] inline Clock::time_point deadline_after(double wait_s) {
  const std::chrono::duration<double> wait(wait_s > 0 ? std::min(wait_s, 1e9) : 0.0);
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(wait);
}

}  // namespace chimera
