#include "chimera/schedule/recompute.h"

#include <utility>

namespace chimera {

Schedule with_recompute(Schedule schedule, const std::vector<bool>& stages) {
  for (Row& row : schedule.rows) {
    Row with;
    for (const Action& action : row) {
      if (yields_gradient(action.op) && stages[static_cast<std::size_t>(action.stage)]) {
        Action again = action;
        again.op = Op::kRecompute;
        with.push_back(again);
      }
      with.push_back(action);
    }
    row = std::move(with);
  }
  return schedule;
}

Recomputed::Recomputed(const Rows& rows, int stages, int micros)
    : micros_(static_cast<std::size_t>(micros)),
      marks_(static_cast<std::size_t>(stages) * micros_, false) {
  for (const Row& row : rows) {
    for (const Action& action : row) {
      if (action.op != Op::kRecompute || action.stage < 0 || action.stage >= stages) continue;
      for (int micro = action.micro; micro < action.micro + action.span; ++micro) {
        if (micro < 0 || micro >= micros) continue;
        marks_[static_cast<std::size_t>(action.stage) * micros_ + static_cast<std::size_t>(micro)] =
            true;
      }
    }
  }
}

int Recomputed::count(const Action& action) const {
  int found = 0;
  for (int micro = action.micro; micro < action.micro + action.span; ++micro) {
    found += contains(action.stage, micro) ? 1 : 0;
  }
  return found;
}

int stash_change(const Action& action, const Recomputed& recomputed) {
  if (action.op == Op::kForward) return action.span - recomputed.count(action);
  if (action.op == Op::kRecompute) return action.span;
  return ends_stash(action.op) ? -action.span : 0;
}

}  // namespace chimera
