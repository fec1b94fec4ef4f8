// The emulated cluster: executes a program with the real runtime (worker.h) and the real local
// transport, on many ranks and few cores. Stages wait the time that they are said to take and claim
// the bytes that they are said to hold; messages and all-reduces take as long as the costs say. So
// what the simulator and the memory model predict is measured: that the runtime executes the
// program as they assume, in that time and in that memory.
//
// Time is stretched: each predicted second takes `stretch` real ones, so that even a short action
// is long beside what the runtime costs; that is not stretched, and shows in what is measured
// divided by the stretch. Which of the machine's delays count is said in rank_clock.h. All times
// given and returned are in predicted seconds.
#pragma once

#include <vector>

#include "chimera/schedule/schedule.h"
#include "chimera/simulate/costs.h"
#include "chimera/simulate/memory.h"
#include "chimera/simulate/timeline.h"

namespace chimera {

inline constexpr int kMostEmulatedRanks = 256;  // threads

struct EmulationSetting {
  const Program& program;  // whole backwards only, as in training
  const Costs& costs;
  const MemoryModel& memory;
  // W, all of which run. Costs::reduce_s is that of an all-reduce over all the machine's groups,
  // whether or not they run here.
  int groups = 1;
  // Of a synchronous program, how often the rows are run: one after the other, with no more to hold
  // them together than their messages; or, with `barrier`, all workers begin each at one time. Then
  // a step is as in simulate().
  int steps = 5;
  bool barrier = false;
  // Of a program that itself has steps (has_steps): its micro-batches in each. Its rows are run
  // once.
  int micros_per_step = 0;
  double stretch = 0;  // 0: default_stretch()
};

struct Emulation {
  double stretch = 1;
  // Of a synchronous program the median: how much later a step ended than the one before, or with a
  // barrier, than it began. Of an asynchronous one, see simulate/steady.h.
  double step_s = 0;
  // Of group 0: the step that took the median, or all that an asynchronous program does. From its
  // first start.
  Timeline timeline = {};
  std::vector<double> peak_bytes = {};  // of each worker, the most in any group
  // How far the ranks were behind their own time at the end of a step, at most: where this is a
  // larger part of a step than the accuracy asked for, the machine has too few cores.
  double lag_s = 0;
};

// Throws Error (kUsage) for more ranks than kMostEmulatedRanks, for settings that do not fit each
// other, and what simulate and the runtime throw.
[[nodiscard]] Emulation emulate(const EmulationSetting& setting);

// What the simulator says of Emulation::step_s: of as many steps, in the same way.
[[nodiscard]] double predicted_step_s(const EmulationSetting& setting);

// With which the shortest computation takes as long as the ranks need to not disturb each other,
// but all steps together not more than some 20 s.
[[nodiscard]] double default_stretch(const EmulationSetting& setting);

}  // namespace chimera
