// Position: what a rank is at, for those who ask whether it still gets on.
//
// Each rank writes its own (a PositionBoard's slot), before each action and around each wait; a
// watch reads all of them, of this process or, as notes, of others. Times travel as ages: clocks of
// different machines begin at different moments.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "chimera/schedule/action.h"

namespace chimera {

enum class RankPhase : std::uint8_t {
  kStarting,  // before its first action
  kWorking,   // an action, or what lies between two
  kWaiting,   // for a message or a sum
  kLongWork,  // what may take long and is no action: writing a checkpoint
  kDone,
};

struct Position {
  RankPhase phase = RankPhase::kStarting;
  Action action = {};  // the last one begun; with kStarting none
  int peer = -1;       // whose message it waits for; -1: of none, or, kWaiting, for a sum
  double age_s = 0;    // since the phase or the action began

  [[nodiscard]] std::string to_note() const;
  // Starting, for what is no note.
  [[nodiscard]] static Position from_note(const std::string& note);
};

// "rank 3, stage 2, micro-batch 1, backward, for 0.31 s"
[[nodiscard]] std::string describe(int rank, const Position& position);

// Slots of ranks [0, ranks); each written by one thread, read by any.
class PositionBoard {
 public:
  explicit PositionBoard(int ranks);

  void begin(int slot, const Action& action);
  // The action stays. A rank that starts goes on to start until its first action, whatever it does
  // and waits for meanwhile, or until it is done.
  // Returns the phase before.
  RankPhase enter(int slot, RankPhase phase, int peer = -1);

  [[nodiscard]] Position read(int slot) const;
  [[nodiscard]] int size() const { return static_cast<int>(slots_.size()); }

 private:
  struct Slot {
    mutable std::mutex mutex;
    Position position;
    double since_s = 0;
  };

  std::vector<Slot> slots_;
};

// A phase for as long as it is in scope, then the one before again.
class PhaseScope {
 public:
  PhaseScope(PositionBoard& board, int slot, RankPhase phase, int peer = -1)
      : board_(board), slot_(slot), before_(board_.enter(slot_, phase, peer)) {}
  ~PhaseScope() { board_.enter(slot_, before_); }
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  PositionBoard& board_;
  int slot_;
  RankPhase before_;
};

}  // namespace chimera
