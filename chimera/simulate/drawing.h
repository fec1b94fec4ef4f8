// What the text and the SVG drawing of a timeline have in common: the kinds of boxes that occur,
// the words for them, and the numbers on a time axis.
#pragma once

#include <string>
#include <vector>

#include "chimera/simulate/timeline.h"

namespace chimera {

// How a box looks depends on this alone.
struct Kind {
  Op op = Op::kForward;
  bool up = false;  // in a pipe that descends the workers

  friend bool operator==(const Kind&, const Kind&) = default;
};

[[nodiscard]] Kind kind_of(const Action& action, const Placement& placement);

// Every kind of compute action that occurs, by op, down before up.
[[nodiscard]] std::vector<Kind> kinds_in(const Timeline& timeline, const Placement& placement);

// "forward"; where both directions occur, "forward down" or "forward up".
[[nodiscard]] std::string describe(const Kind& kind, const std::vector<Kind>& kinds);

// The least time that a compute action takes (more than none), or 0.
[[nodiscard]] double shortest_s(const Timeline& timeline);

// The least of 1, 2, 5, 10, ... (by any power of ten) that is not below `least`.
[[nodiscard]] double round_step(double least);

// In at most six digits, as on an axis: "0.25", "1e-06".
[[nodiscard]] std::string short_number(double value);

}  // namespace chimera
