// walk: runs all rows side by side, each in its order, as far as `attempt` lets it. What lower,
// verify and simulate have in common; they differ in what an attempt checks and records.
#pragma once

#include <cstddef>
#include <vector>

#include "chimera/schedule/action.h"

namespace chimera {

// attempt(worker, position) does that action and returns true, or returns false where it cannot be
// done yet. What can be done must not depend on the order in which workers are asked (waiting for
// a message does not). Returns where each row stopped: its size, unless workers wait in a circle.
// Continues from `positions` where it is given.
template <class Attempt>
std::vector<std::size_t> walk(const Rows& rows, Attempt attempt,
                              std::vector<std::size_t> positions = {}) {
  positions.resize(rows.size(), 0);
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t worker = 0; worker < rows.size(); ++worker) {
      std::size_t& position = positions[worker];
      while (position < rows[worker].size() && attempt(worker, position)) {
        ++position;
        progress = true;
      }
    }
  }
  return positions;
}

}  // namespace chimera
