// What ties a configuration to a profile: whether the profile is of the configured model, and what
// the planner is asked for it.
#pragma once

#include <string>
#include <string_view>

#include "chimera/job/config.h"
#include "chimera/job/train_plan.h"
#include "chimera/plan/plan.h"

namespace chimera {

// The profile of the configured model. Throws what check_profile throws (model_profile.h).
[[nodiscard]] Profile profile_for(const Config& config, Profile profile, const std::string& source);

// A step of the configuration, with its clipping and all-reduces; ranks and machine are the
// caller's. No device holds more than pipeline.memory, where that is set; throws Error (kUsage)
// where it is a list, which is one of workers.
[[nodiscard]] PlanRequest plan_request(const Config& config, Profile profile, Machine machine,
                                       int ranks);

// How the run is laid over a machine's devices; B is that of its largest micro-batch.
[[nodiscard]] Layout layout_of(const TrainPlan& plan);

// The configuration with the candidate's pipeline.
[[nodiscard]] Config with_candidate(Config config, const Candidate& candidate);

}  // namespace chimera
