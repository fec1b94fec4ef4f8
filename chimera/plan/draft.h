// A draft: a candidate whose order is known, before its split, recompute and times are. Part of
// plan.cc.
#pragma once

#include "chimera/plan/bounds.h"
#include "chimera/plan/plan.h"

namespace chimera {

struct Draft {
  Candidate candidate = {};
  Placement placement = {};
  Rows rows = {};
  int steps = 1;       // that the rows have: an asynchronous schedule as many as fill it
  double bound_s = 0;  // a step takes at least so long
};

// Throws Error (kUsage) where the schedule cannot be.
[[nodiscard]] Draft ordered(const Candidate& candidate, ReducePolicy reduce);

[[nodiscard]] Costs costs_of(const Candidate& candidate, const Placement& placement,
                             const PlanRequest& request);

// `work` is of the draft's rows.
[[nodiscard]] double least_step_s(const RowWork& work, const Candidate& candidate,
                                  const Placement& placement, const PlanRequest& request);

}  // namespace chimera
