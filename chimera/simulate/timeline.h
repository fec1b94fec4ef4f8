// A Timeline says when each worker did what: the simulator's prediction and the runtime's
// measurement in one form, so that they can be shown side by side.
//
// Times are in seconds from the start of the step. A plain value. Functions below are pure.
#pragma once

#include <vector>

#include "chimera/schedule/schedule.h"

namespace chimera {

struct Interval {
  Action action;
  double start_s = 0;
  double end_s = 0;
};

struct Timeline {
  std::vector<std::vector<Interval>> rows;  // one a worker, in the order of its row
  // What goes on beside the rows: the all-reduces that each worker takes part in, as reduce-begin
  // actions, from the begin on this worker to the end of the sum. One list a worker, or empty.
  std::vector<std::vector<Interval>> reductions = {};
};

// Bytes from this time on, until the next level.
struct Level {
  double time_s = 0;
  double bytes = 0;
};

// End of the last action of any worker.
[[nodiscard]] double makespan(const Timeline& timeline);

// Time that a worker computes (F, B, I, W, R): neither waiting nor communicating.
[[nodiscard]] double busy(const Timeline& timeline, int worker);

// Idle time / (workers * makespan).
[[nodiscard]] double bubble_ratio(const Timeline& timeline);

// The first start of any action; 0 where there is none.
[[nodiscard]] double first_start(const Timeline& timeline);

// Moved so that the first start of any worker is at 0.
[[nodiscard]] Timeline from_origin(Timeline timeline);

// Compute actions alone, with the first start at 0: what a step is without communication,
// reduction and optimizer. Bubble ratios are compared on this.
[[nodiscard]] Timeline compute_part(const Timeline& timeline);

}  // namespace chimera
