// Recompute: run a forward again instead of keeping its activations until the backward. In a
// schedule it is an action, R, between the two; a forward that has one keeps its stage's input
// alone.
#pragma once

#include <cstddef>
#include <vector>

#include "chimera/schedule/schedule.h"

namespace chimera {

// The schedule with a recompute right before each backward of the stages marked (one flag a stage).
// Being before the backward's receive (lower.h), it fills the time in which the gradient is on its
// way, and at most one micro-batch's activations are held more than needed.
[[nodiscard]] Schedule with_recompute(Schedule schedule, const std::vector<bool>& stages);

// Which (stage, micro-batch) have a recompute.
class Recomputed {
 public:
  // Of all rows; ids out of range are left out.
  Recomputed(const Rows& rows, int stages, int micros);

  [[nodiscard]] bool contains(int stage, int micro) const {
    return marks_[static_cast<std::size_t>(stage) * micros_ + static_cast<std::size_t>(micro)];
  }
  // How many micro-batches of the action have one.
  [[nodiscard]] int count(const Action& action) const;

 private:
  std::size_t micros_;
  std::vector<bool> marks_;
};

// How many more micro-batches' activations the worker holds after a compute action: a forward keeps
// them unless it is recomputed, a recompute brings them back, a backward frees them.
[[nodiscard]] int stash_change(const Action& action, const Recomputed& recomputed);

}  // namespace chimera
