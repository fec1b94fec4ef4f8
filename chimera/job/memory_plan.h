// How many bytes each worker of a training run will hold, and which activations to recompute so
// that they fit.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "chimera/job/config.h"
#include "chimera/schedule/schedule.h"
#include "chimera/simulate/memory.h"

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

// A text of gigabytes, as 16 or "16,16,8,16", in bytes: one number, or one for each of `count`
// things that `each` names. `name` is where it comes from: pipeline.memory, --memory. Empty for an
// empty text. Throws Error (kUsage).
[[nodiscard]] std::vector<double> parse_memory(std::string_view name, const std::string& text,
                                               int count, std::string_view each);

// pipeline.memory for each worker, in bytes; empty where there is no limit. Throws Error (kUsage).
[[nodiscard]] std::vector<double> memory_limits(const std::string& text, int workers);

// How many blocks of each stage to recompute so that no worker is above its limit: one block is
// added at a time, on the worker that is most above, to the stage where it leaves least. Greedy, so
// not always the fewest; the planner, which asks this of many candidates, takes as many of each
// stage (plan/fitting.h). Ends with all blocks of a worker where nothing less fits. `peaks` gives
// the workers' peaks for a choice.
[[nodiscard]] std::vector<int> fitting_recompute(
    const Placement& placement, const std::vector<int>& split, const std::vector<double>& limits,
    const std::function<std::vector<double>(const std::vector<int>&)>& peaks);

}  // namespace chimera
