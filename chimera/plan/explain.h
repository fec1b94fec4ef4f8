// Why a plan is good, and why there is none, in sentences.
#pragma once

#include <string>

#include "chimera/plan/plan.h"

namespace chimera {

// Of a plan beside the best, which may be the same.
[[nodiscard]] std::string reason(const Plan& plan, const Plan& best);

// Of a worker that would hold too much though all blocks are recomputed.
[[nodiscard]] std::string memory_reason(std::size_t worker, double peak_bytes, double limit_bytes);

// Where no candidate is left. `needed`: with so many times the memory there would be one; 0: not
// even then.
[[nodiscard]] std::string no_plan_reason(const Plans& plans, const PlanRequest& request,
                                         double needed);

}  // namespace chimera
