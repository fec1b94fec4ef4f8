#include "chimera/simulate/timeline.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace chimera {

double makespan(const Timeline& timeline) {
  double end = 0;
  for (const auto& row : timeline.rows) {
    for (const Interval& interval : row) end = std::max(end, interval.end_s);
  }
  return end;
}

double busy(const Timeline& timeline, int worker) {
  double sum = 0;
  for (const Interval& interval : timeline.rows[static_cast<std::size_t>(worker)]) {
    if (is_compute(interval.action.op)) sum += interval.end_s - interval.start_s;
  }
  return sum;
}

double bubble_ratio(const Timeline& timeline) {
  const double whole = static_cast<double>(timeline.rows.size()) * makespan(timeline);
  double computing = 0;
  for (std::size_t worker = 0; worker < timeline.rows.size(); ++worker) {
    computing += busy(timeline, static_cast<int>(worker));
  }
  return whole > 0 ? (whole - computing) / whole : 0;
}

double first_start(const Timeline& timeline) {
  double first = std::numeric_limits<double>::infinity();
  for (const auto& row : timeline.rows) {
    for (const Interval& interval : row) first = std::min(first, interval.start_s);
  }
  return std::isfinite(first) ? first : 0;
}

Timeline from_origin(Timeline timeline) {
  const double first = first_start(timeline);
  for (auto& row : timeline.rows) {
    for (Interval& interval : row) {
      interval.start_s -= first;
      interval.end_s -= first;
    }
  }
  for (auto& row : timeline.reductions) {
    for (Interval& interval : row) {
      interval.start_s -= first;
      interval.end_s -= first;
    }
  }
  return timeline;
}

Timeline compute_part(const Timeline& timeline) {
  Timeline part;
  for (const auto& row : timeline.rows) {
    auto& kept = part.rows.emplace_back();
    std::copy_if(row.begin(), row.end(), std::back_inserter(kept),
                 [](const Interval& interval) { return is_compute(interval.action.op); });
  }
  return from_origin(std::move(part));
}

}  // namespace chimera
