// Starts the ranks of a job: all of them as threads of this process, or the one that this process
// is.
//
// The first error of any rank ends all of them with its text: where one throws, the others are told
// (Transport::abort). Nothing here waits without a limit.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "chimera/runtime/position.h"
#include "chimera/schedule/action.h"
#include "chimera/transport/checked.h"
#include "chimera/transport/faulty.h"
#include "chimera/transport/transport.h"

namespace chimera {

// What a rank's function gets.
struct Rank {
  Transport& transport;
  std::function<void(const Action&)> on_action;  // to be called before each (WorkerOptions)
  PositionBoard& board;
  int slot;           // on the board
  std::string cores;  // of this process, in words; empty where ranks are threads

  // While in scope the rank may take as long as a start-up: writing a checkpoint.
  [[nodiscard]] PhaseScope long_work() const { return {board, slot, RankPhase::kLongWork}; }
};

struct LaunchOptions {
  // A run that does not get on has ended after so long: the ranks have four fifths of it for one
  // action, or to be silent, and what is left to end (watch.h).
  double limit_s = 30;
  double startup_limit_s = 300;        // until all ranks have begun
  bool bind = false;                   // a process to its share of the machine's cores
  std::optional<FaultPlan> harm = {};  // to messages, on purpose; then they are checked throughout
};

// A thread for each rank. Returns when all have returned; throws the first error.
void launch_threads(int ranks, const LaunchOptions& options,
                    const std::function<void(const Rank&)>& body);

// This process's rank of an MPI job: as many ranks as processes were started. Reports an error by
// itself and throws Reported (report.h): what ends a job leaves its processes a second or less, and
// taking leave of MPI may need longer where a rank is gone.
void launch_process(const LaunchOptions& options, const std::function<void(const Rank&)>& body);

// Threads without a watch, for tests: waits are limited by the checked transport alone. Returns
// when all ranks have returned; throws the first error.
void launch_local(int ranks, const CheckedOptions& options,
                  const std::function<void(Transport&)>& body);

}  // namespace chimera
