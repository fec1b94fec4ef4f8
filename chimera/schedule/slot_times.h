// When each action of a schedule would start and end if a forward took 1 and a whole backward 2,
// and nothing else cost anything. What lower asks to see where a bubble follows.
#pragma once

#include <cstddef>
#include <vector>

#include "chimera/schedule/schedule.h"

namespace chimera {

// Rows that wait for ever stop early. Keeps a reference to the schedule.
class SlotTimes {
 public:
  static constexpr std::size_t kStart = static_cast<std::size_t>(-1);

  explicit SlotTimes(const Schedule& schedule);

  // Whether the worker idles between the end of the action at `position` (kStart: the start of the
  // row) and the end of its row. False where the rows stop before the action.
  [[nodiscard]] bool idles_after(std::size_t worker, std::size_t position) const;

 private:
  [[nodiscard]] std::size_t cell(int stage, int micro) const;
  [[nodiscard]] int ready(const Action& action, int micro) const;
  bool attempt(std::size_t worker, std::size_t position);

  const Schedule& schedule_;
  std::vector<int> forward_end_, gradient_end_;  // by (stage, micro)
  std::vector<std::vector<int>> start_;
  std::vector<int> free_;
};

}  // namespace chimera
