// walk: runs all rows side by side, each in its order, as far as `attempt` lets it. What lower,
// verify and simulate have in common; they differ in what a row's items are and what an attempt
// records.
#pragma once

#include <cstddef>
#include <vector>

namespace chimera {

// `rows` has one list a worker. attempt(worker, position) does that item and returns true, or
// returns false where it cannot be done yet. What can be done must not depend on the order in which
// workers are asked (waiting for a message does not). Returns where each row stopped: its size,
// unless workers wait in a circle. Continues from `positions` where it is given.
template <class RowList, class Attempt>
std::vector<std::size_t> walk(const RowList& rows, Attempt attempt,
                              std::vector<std::size_t> positions = {}) {
  positions.resize(rows.size(), 0);
  // Ascending, then descending: forwards go up the workers, backwards down, so most work is found
  // in a sweep or two.
  bool ascends = false;
  for (bool progress = true; progress;) {
    progress = false;
    ascends = !ascends;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::size_t worker = ascends ? i : rows.size() - 1 - i;
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
