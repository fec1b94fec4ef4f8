// Timing: what repeated measurements of one thing say.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace chimera {

struct Timing {
  double typical_s = 0;  // the mean, without the quickest and the slowest tenth
  double spread = 0;     // half of what the middle two thirds of all times span, over typical_s
  int times = 0;
};

// All zero where there are none. A mean, not a median: a step is a sum of many such times, they are
// skewed, and sums come out at means.
[[nodiscard]] inline Timing timing_of(std::vector<double> seconds) {
  if (seconds.empty()) return {};
  std::sort(seconds.begin(), seconds.end());
  const std::size_t count = seconds.size(), tenth = count / 10;
  const auto out = static_cast<std::ptrdiff_t>(tenth);
  const double typical = std::accumulate(seconds.begin() + out, seconds.end() - out, 0.0) /
                         static_cast<double>(count - 2 * tenth);
  const double span = seconds[count - 1 - count / 6] - seconds[count / 6];
  return {typical, typical > 0 ? span / 2 / typical : 0, static_cast<int>(count)};
}

}  // namespace chimera
