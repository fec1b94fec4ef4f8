#include "chimera/runtime/position.h"

#include <sstream>

#include "chimera/base/clock.h"
#include "chimera/base/text.h"

namespace chimera {
namespace {

std::string at_action(int rank, const Action& action) {
  std::string text = cat("rank ", rank);
  if (action.stage != kAllStages) text += cat(", stage ", action.stage);
  if (action.op < Op::kReduceBegin) text += cat(", micro-batch ", action.micro);
  return text + cat(", ", info(action.op).name);
}

}  // namespace

std::string Position::to_note() const {
  return cat(static_cast<int>(phase), " ", static_cast<int>(action.op), " ", action.stage, " ",
             action.micro, " ", peer, " ", age_s);
}

Position Position::from_note(const std::string& note) {
  std::istringstream in(note);
  int phase = 0, op = 0, stage = 0;
  Position position;
  in >> phase >> op >> stage >> position.action.micro >> position.peer >> position.age_s;
  if (!in || phase < 0 || phase > static_cast<int>(RankPhase::kDone) || op < 0 ||
      op > static_cast<int>(Op::kStep)) {
    return {};
  }
  position.phase = static_cast<RankPhase>(phase);
  position.action.op = static_cast<Op>(op);
  position.action.stage = static_cast<std::int16_t>(stage);
  return position;
}

std::string describe(int rank, const Position& position) {
  const std::string since = cat(", for ", seconds_text(position.age_s));
  switch (position.phase) {
    case RankPhase::kStarting:
      return cat("rank ", rank, ", starting", since);
    case RankPhase::kDone:
      return cat("rank ", rank, ", done");
    case RankPhase::kLongWork:
      return cat("rank ", rank, ", writing a checkpoint", since);
    case RankPhase::kWaiting:
      return at_action(rank, position.action) +
             (position.peer < 0 ? ", waiting for other ranks"
                                : cat(", waiting for rank ", position.peer)) +
             since;
    case RankPhase::kWorking:
      return at_action(rank, position.action) + since;
  }
  return cat("rank ", rank);
}

PositionBoard::PositionBoard(int ranks) : slots_(static_cast<std::size_t>(ranks)) {
  for (Slot& slot : slots_) slot.since_s = now_s();
}

void PositionBoard::begin(int slot, const Action& action) {
  Slot& own = slots_[static_cast<std::size_t>(slot)];
  const std::lock_guard lock(own.mutex);
  own.position.phase = RankPhase::kWorking;
  own.position.action = action;
  own.position.peer = -1;
  own.since_s = now_s();
}

RankPhase PositionBoard::enter(int slot, RankPhase phase, int peer) {
  Slot& own = slots_[static_cast<std::size_t>(slot)];
  const std::lock_guard lock(own.mutex);
  own.position.peer = peer;
  const RankPhase before = own.position.phase;
  if (before == RankPhase::kStarting && phase != RankPhase::kDone) return before;
  own.position.phase = phase;
  own.since_s = now_s();
  return before;
}

Position PositionBoard::read(int slot) const {
  const Slot& own = slots_[static_cast<std::size_t>(slot)];
  const std::lock_guard lock(own.mutex);
  Position position = own.position;
  position.age_s = now_s() - own.since_s;
  return position;
}

}  // namespace chimera
