// A Placement says which worker holds which stage of which pipe: the map (pipe, stage) -> worker.
//
// A plain value; it does not know micro-batches or order. Pipes may ascend the workers ("down", as
// drawn in the paper) or descend them ("up"), fold back, or share workers in any other way.
#pragma once

#include <cstdint>
#include <vector>

namespace chimera {

// At most this many stages, workers, pipes; more is refused.
inline constexpr int kMaxStages = 4096;

class Placement {
 public:
  Placement() = default;

  // workers[pipe][stage]; every pipe has the same number of stages, at least one.
  // Throws Error where it is not so or a worker is negative.
  explicit Placement(std::vector<std::vector<int>> workers);

  // One pipe, stage s on worker s.
  static Placement linear(int stages);

  // Two pipes: stage s on worker s, and on worker D - 1 - s.
  static Placement opposite(int stages);

  // 2 * pairs pipes over `stages` workers (Chimera, section 3.6): pipe i < pairs is a down pipe
  // with stage s on worker (s + i D/f) mod D, pipe pairs + i is its exact reverse.
  // Requires an even number of stages and pairs that divide stages / 2.
  static Placement bidirectional(int stages, int pairs);

  [[nodiscard]] int pipes() const { return static_cast<int>(map_.size()); }
  [[nodiscard]] int stages() const { return map_.empty() ? 0 : static_cast<int>(map_[0].size()); }
  [[nodiscard]] int workers() const { return workers_; }
  [[nodiscard]] int worker(int pipe, int stage) const {
    return map_[static_cast<std::size_t>(pipe)][static_cast<std::size_t>(stage)];
  }
  // Whether the pipe descends the workers more often than it ascends them, from stage to stage.
  [[nodiscard]] bool is_up(int pipe) const;

  // The stages that a worker holds, ascending, each once.
  [[nodiscard]] const std::vector<int>& stages_of(int worker) const;
  // The workers that hold a stage, ascending, each once: its stage group within one group.
  [[nodiscard]] const std::vector<int>& holders(int stage) const {
    return holders_[static_cast<std::size_t>(stage)];
  }

  friend bool operator==(const Placement&, const Placement&) = default;

 private:
  void list();

  std::vector<std::vector<int>> map_;
  int workers_ = 0;
  std::vector<std::vector<int>> stages_of_, holders_;  // follow from the map
};

}  // namespace chimera
