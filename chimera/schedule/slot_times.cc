#include "chimera/schedule/slot_times.h"

#include <algorithm>

#include "chimera/schedule/walk.h"

namespace chimera {
namespace {

constexpr int kNotYet = -1;

int slots(const Action& action) {
  if (!is_compute(action.op)) return 0;
  return (action.op == Op::kBackward ? 2 : 1) * action.span;
}

std::size_t cells(const Schedule& schedule) {
  return static_cast<std::size_t>(schedule.stages()) * static_cast<std::size_t>(schedule.micros);
}

}  // namespace

SlotTimes::SlotTimes(const Schedule& schedule)
    : schedule_(schedule),
      forward_end_(cells(schedule), kNotYet),
      gradient_end_(cells(schedule), kNotYet),
      start_(schedule.rows.size()),
      free_(schedule.rows.size(), 0) {
  walk(schedule.rows,
       [this](std::size_t worker, std::size_t position) { return attempt(worker, position); });
}

bool SlotTimes::idles_after(std::size_t worker, std::size_t position) const {
  const auto& starts = start_[worker];
  const Row& row = schedule_.rows[worker];
  if (position != kStart && position >= starts.size()) return false;
  int end = position == kStart ? 0 : starts[position] + slots(row[position]);
  for (std::size_t i = position == kStart ? 0 : position + 1; i < starts.size(); ++i) {
    if (starts[i] > end) return true;
    end = starts[i] + slots(row[i]);
  }
  return false;
}

std::size_t SlotTimes::cell(int stage, int micro) const {
  return static_cast<std::size_t>(stage) * static_cast<std::size_t>(schedule_.micros) +
         static_cast<std::size_t>(micro);
}

// When the inputs of one micro-batch of the action are there; kNotYet where they are not.
int SlotTimes::ready(const Action& action, int micro) const {
  if (action.op == Op::kForward) {
    return action.stage == 0 ? 0 : forward_end_[cell(action.stage - 1, micro)];
  }
  if (yields_gradient(action.op) && action.stage + 1 < schedule_.stages()) {
    return gradient_end_[cell(action.stage + 1, micro)];
  }
  return 0;
}

bool SlotTimes::attempt(std::size_t worker, std::size_t position) {
  const Action& action = schedule_.rows[worker][position];
  int start = free_[worker];
  for (int micro = action.micro; micro < action.micro + action.span; ++micro) {
    const int input = ready(action, micro);
    if (input == kNotYet) return false;
    start = std::max(start, input);
  }
  start_[worker].push_back(start);
  free_[worker] = start + slots(action);
  for (int micro = action.micro; micro < action.micro + action.span; ++micro) {
    if (action.op == Op::kForward) forward_end_[cell(action.stage, micro)] = free_[worker];
    if (yields_gradient(action.op)) gradient_end_[cell(action.stage, micro)] = free_[worker];
  }
  return true;
}

}  // namespace chimera
