#include "chimera/job/model_profile.h"

#include <algorithm>
#include <array>

#include "chimera/base/check.h"
#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/job/vocabulary.h"
#include "chimera/shape/layer_sizes.h"

namespace chimera {
namespace {

double bytes(std::int64_t count) { return static_cast<double>(count); }

// The gradient norm is taken in fp64, on a copy of each gradient that is not.
double norm_bytes(const ModelSpec& model, std::int64_t elements) {
  return model.dtype == DType::kFloat64 ? 0 : 8.0 * static_cast<double>(elements);
}

LayerPoint sized_point(const LayerSizes& sizes, int sequences) {
  return {.sequences = sequences,
          .stash_bytes = bytes(sizes.stash),
          .forward_work_bytes = bytes(sizes.forward_work),
          .kept_forward_work_bytes = bytes(sizes.kept_forward_work),
          .recompute_work_bytes = bytes(sizes.forward_work),
          .backward_work_bytes = bytes(sizes.backward_work),
          .end_backward_work_bytes = bytes(sizes.end_backward_work),
          .output_bytes = bytes(sizes.output)};
}

LayerKind sized_kind(const Config& config, const std::string& name, int layer,
                     const std::vector<int>& sizes) {
  LayerKind kind{.name = name};
  for (const int sequences : sizes) {
    const LayerSizes of = layer_sizes(config.model, layer, sequences, config.pipeline.threads);
    kind.parameters = of.parameters;
    kind.weight_bytes = bytes(of.weights.parameters);
    kind.gradient_bytes = bytes(of.weights.gradients);
    kind.optimizer_bytes = bytes(of.weights.optimizer);
    kind.step_bytes = norm_bytes(config.model, of.largest);
    kind.points.push_back(sized_point(of, sequences));
  }
  return kind;
}

LayerKind stage_kind(const std::vector<int>& sizes) {
  LayerKind kind{.name = kStage};
  for (const int sequences : sizes) kind.points.push_back({.sequences = sequences});
  return kind;
}

// Blocks, between what this project's models have before and after them.
void check_layers(const Profile& profile, const std::string& source) {
  using Names = std::vector<std::string>;
  const auto check = [&](std::string_view key, const Names& seen, const Names& expected) {
    if (seen == expected) return;
    throw Error(ErrorCode::kUsage, cat("the profile '", source, "' is of another model: its ", key,
                                       " layers are '", join(seen), "', not '", join(expected),
                                       "'; profile this configuration (chimera profile)"));
  };
  check("first", profile.first, {kEmbedding});
  check("last", profile.last, {kHead});
  check("blocks", profile.blocks, Names(profile.blocks.size(), kBlock));
}

}  // namespace

std::map<std::string, std::string> model_keys(const Config& config) {
  std::map<std::string, std::string> keys;
  for (const KeyValue& key : values(config)) {
    if (key.section != "model" || key.name == "layers") continue;
    std::string value = key.value;
    std::erase(value, '\'');  // which texts have in TOML
    keys[std::string(key.name)] = value;
  }
  keys["threads"] = cat(config.pipeline.threads);
  return keys;
}

void check_profile(const Profile& profile, const Config& config, const std::string& source) {
  check_layers(profile, source);
  for (const auto& [name, value] : model_keys(with_vocabulary(config))) {
    const auto found = profile.model.find(name);
    if (found != profile.model.end() && found->second == value) continue;
    throw Error(ErrorCode::kUsage,
                cat("the profile '", source, "' is of another model: its ", name, " is ",
                    found == profile.model.end() ? "not given" : found->second,
                    ", but the configuration's is ", value,
                    "; profile this configuration (chimera profile)"));
  }
}

Profile with_blocks(Profile profile, int blocks) {
  CHECK(blocks > 0 && !profile.blocks.empty());
  profile.blocks.assign(static_cast<std::size_t>(blocks), profile.blocks.front());
  return profile;
}

Profile sized_profile(const Config& config, const std::vector<int>& sizes) {
  const ModelSpec& model = config.model;
  CHECK(!sizes.empty() && std::is_sorted(sizes.begin(), sizes.end()));
  Profile profile;
  profile.model = model_keys(config);
  profile.kinds = {sized_kind(config, kEmbedding, 0, sizes), sized_kind(config, kBlock, 1, sizes),
                   sized_kind(config, kHead, model.head_layer(), sizes), stage_kind(sizes)};
  profile.first = {kEmbedding};
  profile.last = {kHead};
  profile.each = {kStage};
  profile.tokens_bytes = 8.0 * model.sequence;
  if (model.tied) profile.shared_parameters = std::int64_t{model.vocabulary} * model.hidden;
  profile.blocks = {kBlock};
  return with_blocks(std::move(profile), model.layers);
}

}  // namespace chimera
