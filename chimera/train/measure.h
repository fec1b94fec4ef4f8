// From a measured step back to costs, so that prediction and measurement can be set side by side.
#pragma once

#include "chimera/schedule/schedule.h"
#include "chimera/simulate/costs.h"
#include "chimera/simulate/timeline.h"

namespace chimera {

// The mean duration of each stage's forward and backward for one micro-batch, over all workers.
// Nothing else costs.
[[nodiscard]] Costs measured_costs(const Timeline& timeline, int stages);

// What the simulator says of the program with a step's measured durations, computation alone.
[[nodiscard]] Timeline predicted(const Program& program, const Timeline& measured);

}  // namespace chimera
