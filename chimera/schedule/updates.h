// What a schedule implies for the weights of one worker: when its gradients are reduced, which
// versions of weights are kept beside the newest, and the optimizer's step. Half of lower.
#pragma once

#include <cstddef>
#include <map>

#include "chimera/schedule/lower.h"
#include "chimera/schedule/slot_times.h"

namespace chimera {

// Actions to put into a row: around the action at a position of the schedule's row, or at its ends.
struct Updates {
  Row start;
  std::map<std::size_t, Row> before, after;
  Row end;
};

[[nodiscard]] Updates updates_of(const Schedule& schedule, std::size_t worker, ReducePolicy policy,
                                 const SlotTimes& times);

}  // namespace chimera
