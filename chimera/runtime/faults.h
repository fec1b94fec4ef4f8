// Faults on purpose, to show what becomes of a run that meets them: a worker that dies, throws,
// stalls or runs out of memory at an action, or messages that come to harm (transport/faulty.h).
//
// Written as one word, for the option --fault (docs/formats.md has no other form of it):
//
//   kill@rank=2,action=17          rank 2 dies at the 17th action that it begins
//   throw@rank=0,step=3,action=1   at the first action of the third step of this run
//   kill@seed=7,step=3             the seed chooses what is not said
//   seed=7,kind=kill               the same as kill@seed=7
//   drop@rank=1,message=3          the third message that rank 1 sends is lost
//   delay@seed=7,probability=0.1,seconds=0.05
//
// Values; no thread, no state but the count in the hook that at_action returns.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "chimera/schedule/action.h"
#include "chimera/transport/faulty.h"

namespace chimera {

enum class Deed : std::uint8_t {
  kKill,    // SIGKILL, to the own process
  kThrow,   // an exception, as a stage's
  kStall,   // never comes back; ends with the process alone
  kMemory,  // allocates until the allocator refuses, under a limit set for the purpose
};

// At the how-manieth action (from 1) that the rank begins in this run, or in one step of it.
struct ActionFault {
  Deed deed = Deed::kKill;
  std::optional<int> rank = {};
  std::optional<int> action = {};
  std::optional<int> step = {};  // of this run, from 1; none: actions are counted over all
  std::optional<std::uint64_t> seed = {};  // chooses rank, action and step where they are not said
  std::string text = {};                   // as it was written, for messages
};

using Fault = std::variant<ActionFault, FaultPlan>;

// Throws Error (kUsage) that names the word and what was expected.
[[nodiscard]] Fault parse_fault(std::string_view text);

// What a seed may choose from.
struct FaultRange {
  std::vector<int> actions;  // in one step, by rank
  int steps = 1;             // of this run
};

// The fault with rank and action said, the action counted from the start of the run (so no step).
// Throws Error (kUsage) for a place that the run does not reach.
[[nodiscard]] ActionFault settle(const ActionFault& fault, const FaultRange& range);

// Called before each action of a rank, it does the deed of a settled fault at its place; for other
// ranks it is empty. Counts by itself: one for each worker, called by its thread.
[[nodiscard]] std::function<void(const Action&)> at_action(const ActionFault& settled, int rank);

}  // namespace chimera
