#include "chimera/simulate/drawing.h"

#include <algorithm>
#include <cmath>
#include <sstream>

namespace chimera {

Kind kind_of(const Action& action, const Placement& placement) {
  return {action.op, placement.is_up(action.pipe)};
}

std::vector<Kind> kinds_in(const Timeline& timeline, const Placement& placement) {
  std::vector<Kind> kinds;
  for (const auto& row : timeline.rows) {
    for (const Interval& interval : row) {
      if (!is_compute(interval.action.op)) continue;
      const Kind kind = kind_of(interval.action, placement);
      if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) kinds.push_back(kind);
    }
  }
  std::sort(kinds.begin(), kinds.end(),
            [](const Kind& a, const Kind& b) { return a.op != b.op ? a.op < b.op : a.up < b.up; });
  return kinds;
}

std::string describe(const Kind& kind, const std::vector<Kind>& kinds) {
  std::string text(info(kind.op).name);
  const bool any_up = std::any_of(kinds.begin(), kinds.end(), [](const Kind& k) { return k.up; });
  if (any_up) text += kind.up ? " up" : " down";
  return text;
}

double shortest_s(const Timeline& timeline) {
  double shortest = 0;
  for (const auto& row : timeline.rows) {
    for (const Interval& interval : row) {
      const double length = interval.end_s - interval.start_s;
      if (!is_compute(interval.action.op) || !(length > 0)) continue;
      if (shortest == 0 || length < shortest) shortest = length;
    }
  }
  return shortest;
}

double round_step(double least) {
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

std::string short_number(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

}  // namespace chimera
