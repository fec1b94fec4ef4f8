// Which all-reduces of a program belong together: the k-th of a stage on each of its holders. What
// simulate and the progress pass of verify have in common.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <vector>

#include "chimera/schedule/schedule.h"

namespace chimera {

// One T (value-initialised) for each all-reduce. References stay valid.
template <class T>
class Rounds {
 public:
  explicit Rounds(const Program& program) {
    const auto stages = static_cast<std::size_t>(program.source.stages());
    rounds_.resize(stages);
    counts_.resize(program.rows.size());
    for (std::size_t stage = 0; stage < stages; ++stage) {
      members_.push_back(
          static_cast<int>(program.source.placement.holders(static_cast<int>(stage)).size()));
    }
  }

  // How many workers hold the stage.
  [[nodiscard]] int members(int stage) const { return members_[index(stage)]; }
  // The all-reduce that the worker begins now; it is the next one's turn then.
  T& begin(std::size_t worker, int stage) { return at(stage, counts_[worker][stage].begun++); }
  // The all-reduce that the worker waits for now.
  T& waited(std::size_t worker, int stage) { return at(stage, counts_[worker][stage].done); }
  // The worker's wait is over.
  void finish(std::size_t worker, int stage) { ++counts_[worker][stage].done; }

 private:
  struct Count {
    std::size_t begun = 0, done = 0;
  };

  static std::size_t index(int stage) { return static_cast<std::size_t>(stage); }
  T& at(int stage, std::size_t round) {
    auto& rounds = rounds_[index(stage)];
    while (rounds.size() <= round) rounds.emplace_back();
    return rounds[round];
  }

  std::vector<std::deque<T>> rounds_;         // by stage
  std::vector<std::map<int, Count>> counts_;  // by worker and stage
  std::vector<int> members_;
};

}  // namespace chimera
