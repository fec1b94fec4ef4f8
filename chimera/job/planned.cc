#include "chimera/job/planned.h"

#include <algorithm>
#include <cmath>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/job/memory_plan.h"
#include "chimera/job/model_profile.h"

namespace chimera {
namespace {

// Why a schedule whose stages step one by one cannot train this.
std::string no_asynchronous(const Config& config) {
  if (config.train.clip != 0) {
    return cat("train.clip is ", config.train.clip,
               ", which needs the gradient norm over all stages before any of them steps");
  }
  if (config.model.tied) return "model.tied is true, and its stages step at different times";
  return "";
}

// What pipeline.memory allows a worker, its device need not hold more.
Machine limited(Machine machine, const std::string& text) {
  if (text.empty()) return machine;
  if (text.find(',') != std::string::npos) {
    throw Error(ErrorCode::kUsage,
                cat("pipeline.memory is '", text,
                    "', a number for each worker, but which workers there are is still to be "
                    "planned; give one number for all, or what each device holds (--memory)"));
  }
  const double limit = parse_memory("pipeline.memory", text, 1, "workers").front();
  if (machine.memory_bytes.empty()) machine.memory_bytes = {HUGE_VAL};
  for (double& bytes : machine.memory_bytes) {
    bytes = std::min(bytes, limit + machine.reserved_bytes);
  }
  return machine;
}

}  // namespace

Profile profile_for(const Config& config, Profile profile, const std::string& source) {
  check_profile(profile, config, source);
  return with_blocks(std::move(profile), config.model.layers);
}

PlanRequest plan_request(const Config& config, Profile profile, Machine machine, int ranks) {
  PlanRequest request;
  request.profile = std::move(profile);
  request.machine = limited(std::move(machine), config.pipeline.memory);
  request.ranks = ranks;
  request.batch = config.train.batch;
  request.reduce = reduce_policy(config.pipeline.reduce);
  request.barrier = config.train.clip != 0;
  request.no_asynchronous = no_asynchronous(config);
  return request;
}

Layout layout_of(const TrainPlan& plan) {
  int sequences = 0;
  for (const auto& group : plan.cut.groups) {
    for (const MicroBatch& micro : group) sequences = std::max(sequences, micro.count);
  }
  return {.placement = plan.program.source.placement,
          .width = plan.config.pipeline.width,
          .sequences = sequences,
          .split = plan.split,
          .recomputed = plan.recomputed};
}

Config with_candidate(Config config, const Candidate& candidate) {
  PipelineConfig& pipeline = config.pipeline;
  const Spec& spec = candidate.spec;
  pipeline.schedule = candidate.generator->name;
  pipeline.stages = spec.stages;
  pipeline.pairs = spec.pairs.value_or(1);
  pipeline.method = kMethods[static_cast<std::size_t>(spec.method.value_or(Method::kDirect))];
  pipeline.fused = spec.fused;
  pipeline.width = candidate.width;
  pipeline.micro_batch = candidate.micro_batch;
  pipeline.split = join(candidate.split, ",");
  const bool recomputes = std::ranges::any_of(candidate.recomputed, [](int n) { return n > 0; });
  pipeline.recompute = recomputes ? join(candidate.recomputed, ",") : "none";
  return config;
}

}  // namespace chimera
