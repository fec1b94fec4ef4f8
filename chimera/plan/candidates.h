// The candidates of a request: every combination of what the generators can make, before memory and
// time are looked at. Part of plan.cc.
#pragma once

#include <vector>

#include "chimera/plan/plan.h"

namespace chimera {

struct Candidates {
  std::vector<Candidate> possible;  // without split and recompute
  std::vector<Refused> refused;     // whose numbers do not fit together
};

[[nodiscard]] Candidates candidates(const PlanRequest& request);

}  // namespace chimera
