// Timing: what repeated measurements of one thing say.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace chimera {

struct Timing {
  double median_s = 0;
  double spread = 0;  // half of what the middle two thirds of all times span, over the median
  int times = 0;
};

// All zero where there are none.
[[nodiscard]] inline Timing timing_of(std::vector<double> seconds) {
  if (seconds.empty()) return {};
  std::sort(seconds.begin(), seconds.end());
  const std::size_t count = seconds.size();
  const double median = (seconds[(count - 1) / 2] + seconds[count / 2]) / 2;
  const double span = seconds[count - 1 - count / 6] - seconds[count / 6];
  return {median, median > 0 ? span / 2 / median : 0, static_cast<int>(count)};
}

}  // namespace chimera
