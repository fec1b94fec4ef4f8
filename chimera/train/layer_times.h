// How long the layers of a configured model take on this machine, as training runs them.
//
// Each rank has the same small model of the configured layers, cut into four stages that tell the
// kinds apart, and passes micro-batches through them: all stages' forwards, then all backwards, as
// TorchStage does them for the runtime. With b blocks on the third stage and one on each other,
//
//   block = (third - second) / (b - 1)      stage = second - block
//   embedding = first - second              head = fourth - second
//
// where `stage` is what every stage costs once, whatever its layers are. At the end of a round all
// parameters are stepped, as the trainer does. Ranks measure at the same time, as many as will
// train: they share caches, the memory's bandwidth and the cores' clock. Sizes and kinds take
// turns, so that a change of the machine's speed meets all of them; timing.h says what is taken of
// the times. Where a rank computes with one thread, its time is that of its core: what other
// programs take is left out.
#pragma once

#include <array>
#include <vector>

#include "chimera/job/config.h"
#include "chimera/plan/profile.h"
#include "chimera/train/timing.h"
#include "chimera/transport/transport.h"

namespace chimera {

struct LayerTimesOptions {
  std::vector<int> sizes;  // sequences of a micro-batch, ascending
  int rounds = 10;         // that count
};

inline constexpr std::size_t kProbeStages = 4;

struct ProbeTimes {
  Timing forward, kept_forward, recompute, backward;
};

// For one size.
struct SizeTimes {
  int sequences = 0;
  std::array<ProbeTimes, kProbeStages> stages;
  double block_input_part = 0, head_input_part = 0;  // of a backward: the input's gradient
};

struct LayerTimes {
  int blocks = 2;  // of the third stage
  std::vector<SizeTimes> sizes;
  std::array<Timing, kProbeStages> steps;  // norm, clipping, AdamW and zeroing, by stage
  Timing exchange;                         // of the step's sums and times between ranks
};

// Called by every rank, with the memory meter installed; returns rank 0's.
[[nodiscard]] LayerTimes measure_layers(const Config& config, const LayerTimesOptions& options,
                                        Transport& transport);

// Puts the times into a sized profile (job/model_profile.h) of the same sizes. Differences that
// come out below 0, of what takes next to no time, are 0.
void enter_times(const LayerTimes& times, Profile& profile);

}  // namespace chimera
