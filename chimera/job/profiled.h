// What ties a configuration to a profile: whether the profile is of the configured model, and what
// the planner is asked for it.
#pragma once

#include <string>
#include <string_view>

#include "chimera/job/config.h"
#include "chimera/plan/plan.h"

namespace chimera {

// The profile with as many blocks as the configured model has. Throws Error (kUsage) where it is of
// another model: the key, and both values. A vocabulary of 0 (the data's) is taken from the profile.
[[nodiscard]] Profile profile_for(const Config& config, Profile profile, std::string_view source);

// The keys that times depend on, as a profile of this model has them.
[[nodiscard]] std::map<std::string, std::string> profiled_keys(const Config& config);

// A step of the configuration, with its clipping and sums; ranks and machine are the caller's.
[[nodiscard]] PlanRequest plan_request(const Config& config, Profile profile, Machine machine,
                                       int ranks);

// The configuration with the candidate's pipeline.
[[nodiscard]] Config with_candidate(Config config, const Candidate& candidate);

}  // namespace chimera
