// How long a step takes where steps follow one another: the all-reduce and the step of one go on
// while others have begun the next. Pure functions.
#pragma once

#include <functional>
#include <optional>

#include "chimera/schedule/schedule.h"
#include "chimera/simulate/costs.h"
#include "chimera/simulate/timeline.h"

namespace chimera {

// Of a synchronous program: how much later the last of so many steps ends than the one before, at
// least two. A worker begins a step when its own last one is done; the fill of its pipe hides what
// other workers still have to do (region c of Chimera's figure 6).
[[nodiscard]] double overlapped_step_s(const Program& program, const Costs& costs, int steps = 2);

// The part of a worker's time that is idle, where every step takes step_s: communication and
// waiting, and the reduction as far as it is not hidden.
[[nodiscard]] double idle_ratio(const Timeline& timeline, int steps, double step_s);

// An asynchronous schedule never drains, so it is timed in its steady state.
struct SteadyState {
  double micro_s = 0;  // from one micro-batch to the next, in the mean
  int steps = 0;       // that were simulated
  Program program = {};
  Timeline timeline = {};
};

// `make` gives the program of so many steps; runs of `steps`, then twice as many and so on are
// simulated until two agree. Nothing where `most_steps` are too few.
[[nodiscard]] std::optional<SteadyState> steady_state(const std::function<Program(int steps)>& make,
                                                      const Costs& costs, std::int64_t steps,
                                                      std::int64_t most_steps);

// Of one timeline of it, which may be measured and as short as two steps: the time from step to
// step at which the forwards of its first worker begin, on average over the later half. What
// happens there does not depend on how the run ends.
[[nodiscard]] double steady_step_s(const Timeline& timeline, int micros_per_step);

}  // namespace chimera
