// One rank of the emulated cluster (emulate.h): runs its worker's row as in training, in its own
// time (rank_clock.h), with stages that wait. What it measures is the machine's.
#pragma once

#include <deque>
#include <vector>

#include "chimera/runtime/byte_meter.h"
#include "chimera/runtime/emulate.h"
#include "chimera/runtime/launch.h"
#include "chimera/transport/emulated_links.h"

namespace chimera {

// What all ranks share.
struct EmulationShared {
  const EmulationSetting& setting;
  double stretch;
  EmulatedLinks links;
  std::deque<ByteMeter> meters;  // by rank; a deque, for they cannot move
};

// What a rank measured, in real seconds of the steady clock.
struct MeasuredRank {
  std::vector<std::vector<Interval>> rows, reductions;  // of each repetition
  double lag_s = 0;
};

// What the links of the emulation take, in real seconds.
[[nodiscard]] EmulatedCosts stretched_costs(const EmulationSetting& setting, double stretch);

// How often each rank runs its rows: once where the program itself has steps.
[[nodiscard]] int repetitions(const EmulationSetting& setting);

// On the thread of the rank, from the first repetition to the last.
[[nodiscard]] MeasuredRank run_emulated_rank(EmulationShared& shared, const Rank& rank);

}  // namespace chimera
