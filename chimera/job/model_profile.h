// The profile of a configured model, as far as it follows from the model's sizes: its layers and
// their bytes. Times are zero until they are measured (train/layer_times.h).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "chimera/job/config.h"
#include "chimera/plan/profile.h"

namespace chimera {

// Names of kinds: of layers, and of what every stage costs once beside its layers.
inline constexpr const char* kEmbedding = "embedding";
inline constexpr const char* kBlock = "block";
inline constexpr const char* kHead = "head";  // final norm and loss included
inline constexpr const char* kStage = "stage";

// The keys of the configuration that times depend on, with their values in words: those of [model]
// but the number of layers, and pipeline.threads as "threads".
[[nodiscard]] std::map<std::string, std::string> model_keys(const Config& config);

// Throws Error (kUsage) for a profile of another model: the key, and both values. `source` is the
// profile's name.
void check_profile(const Profile& profile, const Config& config, const std::string& source);

// The profile of a model with so many blocks.
[[nodiscard]] Profile with_blocks(Profile profile, int blocks);

// Of the configuration's model, whose vocabulary is known, for micro-batches of `sizes` sequences
// (ascending). layout_memory of it is memory_model (memory_plan.h) of the configuration.
[[nodiscard]] Profile sized_profile(const Config& config, const std::vector<int>& sizes);

}  // namespace chimera
