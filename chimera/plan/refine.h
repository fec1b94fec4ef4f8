// A better split for a plan, judged by simulation (partition.h). Part of plan.cc.
#pragma once

#include "chimera/plan/plan.h"

namespace chimera {

// Puts the best split that it finds into the plan, which fits and has more than one stage, with the
// least recompute that this split needs. Returns how many layouts were simulated.
int improve_split(Plan& plan, const PlanRequest& request);

}  // namespace chimera
