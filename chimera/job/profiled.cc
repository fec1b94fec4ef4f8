#include "chimera/job/profiled.h"

#include <algorithm>

#include "chimera/base/error.h"
#include "chimera/base/text.h"

namespace chimera {
namespace {

constexpr std::string_view kThreads = "threads";
constexpr std::string_view kVocabulary = "vocabulary";

// Why a schedule whose stages step one by one cannot train this.
std::string no_asynchronous(const Config& config) {
  if (config.train.clip != 0) {
    return cat("train.clip is ", config.train.clip,
               ", which needs the gradient norm over all stages before any of them steps");
  }
  if (config.model.tied) return "model.tied is true, and its stages step at different times";
  return "";
}

}  // namespace

std::map<std::string, std::string> profiled_keys(const Config& config) {
  std::map<std::string, std::string> keys;
  for (const KeyValue& key : values(config)) {
    if (key.section == "model" && key.name != "layers") keys[std::string(key.name)] = key.value;
  }
  keys[std::string(kThreads)] = cat(config.pipeline.threads);
  // As TOML has it, texts have quotes.
  for (auto& [name, value] : keys) std::erase(value, '"');
  return keys;
}

Profile profile_for(const Config& config, Profile profile, std::string_view source) {
  for (const auto& [name, value] : profiled_keys(config)) {
    if (name == kVocabulary && config.model.vocabulary == 0) continue;
    const auto found = profile.model.find(name);
    const std::string seen = found == profile.model.end() ? "not given" : found->second;
    if (seen == value) continue;
    throw Error(ErrorCode::kUsage, cat("the profile '", source, "' is of another model: its ", name,
                                       " is ", seen, ", but the configuration's is ", value,
                                       "; profile this configuration (chimera profile)"));
  }
  profile.blocks.assign(static_cast<std::size_t>(config.model.layers), profile.blocks.front());
  return profile;
}

PlanRequest plan_request(const Config& config, Profile profile, Machine machine, int ranks) {
  PlanRequest request;
  request.profile = std::move(profile);
  request.machine = std::move(machine);
  request.ranks = ranks;
  request.batch = config.train.batch;
  request.reduce = reduce_policy(config.pipeline.reduce);
  request.drains = config.train.clip != 0;
  request.no_asynchronous = no_asynchronous(config);
  return request;
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
