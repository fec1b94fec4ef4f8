// From a measured step back to costs, so that prediction and measurement can be set side by side.
#pragma once

#include "chimera/schedule/schedule.h"
#include "chimera/simulate/costs.h"
#include "chimera/simulate/timeline.h"

namespace chimera {

// The mean duration of each stage's forward, backward and recompute for one micro-batch, over all
// workers. Nothing else costs.
[[nodiscard]] Costs measured_costs(const Timeline& timeline, int stages);

// What the simulator says of the program with a step's measured durations.
[[nodiscard]] Timeline predicted(const Program& program, const Timeline& measured);

// The part of the time that workers idle, computation alone, of one step: of a synchronous one from
// its start to its end. Steps of an asynchronous run overlap, so there it is the part of each
// worker's own time from its first to its last action of the step.
[[nodiscard]] double step_bubble_ratio(const Timeline& step, bool asynchronous);

// One step, far from the ends, of a timeline of an asynchronous run.
[[nodiscard]] Timeline middle_step(const Timeline& run, int micros_per_step);

}  // namespace chimera
