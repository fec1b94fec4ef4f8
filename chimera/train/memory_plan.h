// How many bytes each worker of a training run will hold, and which activations to recompute so
// that they fit.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "chimera/schedule/schedule.h"
#include "chimera/simulate/memory.h"
#include "chimera/train/config.h"

namespace chimera {

// Sizes of the model's stages for a micro-batch of `sequences`, with the first recomputed[stage]
// blocks of each stage recomputed.
[[nodiscard]] MemoryModel memory_model(const Config& config, const Placement& placement,
                                       const std::vector<int>& split,
                                       const std::vector<int>& recomputed, int sequences);

// What each worker holds at most, with durations in proportion to floating-point operations.
[[nodiscard]] std::vector<double> predicted_peaks(const Config& config, const Program& program,
                                                  const std::vector<int>& split,
                                                  const MemoryModel& model);

// pipeline.memory for each worker, in bytes; empty where there is no limit. Throws Error (kUsage).
[[nodiscard]] std::vector<double> memory_limits(const std::string& text, int workers);

// The fewest blocks to recompute, found by adding one at a time to the stage that frees most on the
// worker that is most above its limit. `peaks` gives the peaks for a choice, `model` its sizes.
// Ends with all blocks where nothing less fits.
[[nodiscard]] std::vector<int> fitting_recompute(
    const Placement& placement, const std::vector<int>& split, const std::vector<double>& limits,
    const std::function<std::vector<double>(const std::vector<int>&)>& peaks);

}  // namespace chimera
