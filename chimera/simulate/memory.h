// Memory in bytes: what each worker holds at each time of a timeline, predicted or measured.
//
// Weights (the newest, and older versions that the program keeps), gradients and optimizer state
// are there all the time; a micro-batch's activations from its forward (or recompute) to its
// backward; a message from the end of the computation that made it, on the worker that made it, to
// the start of the one that takes it, which counts it among its own. While an action runs it needs
// some bytes more. Knows nothing of models: sizes come from whoever does (model/sizes.h).
#pragma once

#include <vector>

#include "chimera/schedule/schedule.h"
#include "chimera/simulate/timeline.h"

namespace chimera {

// Of one stage and one micro-batch; bytes.
struct StageMemory {
  double weights = 0;  // one version
  double stash = 0;    // held for the backward, the input included
  double kept = 0;     // the same where part of it is to be recomputed
  // Most while the action runs, beyond what is held after it (of a backward: before it).
  double forward_work = 0, kept_forward_work = 0, recompute_work = 0, backward_work = 0;
  double activation = 0;  // the message to the next stage; as large as the gradient from it
};

struct MemoryModel {
  std::vector<StageMemory> stages;
  // Of each worker: newest weights, gradients and optimizer state; and what a step needs besides.
  std::vector<double> weights, gradients, optimizer, step_work;
};

// One list a worker, in order of time. Requires a timeline of the program's rows, whole or in part.
[[nodiscard]] std::vector<std::vector<Level>> memory_levels(const Program& program,
                                                            const Timeline& timeline,
                                                            const MemoryModel& model);

[[nodiscard]] double peak_bytes(const std::vector<Level>& levels);

// The most that each worker holds in the timeline.
[[nodiscard]] std::vector<double> worker_peaks(const Program& program, const Timeline& timeline,
                                               const MemoryModel& model);

}  // namespace chimera
