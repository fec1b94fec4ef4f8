// simulate: Program x Costs -> Timeline, without a machine.
//
// Each worker does its row in order; a computation starts when the worker is free and its input has
// arrived; sends and reductions go on beside computation, receives and waits block. Time
// O(actions).
#pragma once

#include "chimera/schedule/schedule.h"
#include "chimera/simulate/costs.h"
#include "chimera/simulate/timeline.h"

namespace chimera {

// Requires a program that verifies, and costs for its stages. Throws Error (kUsage) for negative or
// missing costs and for a program whose workers wait for each other for ever.
[[nodiscard]] Timeline simulate(const Program& program, const Costs& costs);

}  // namespace chimera
