#include "chimera/train/compatible.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/generate/generate.h"

namespace chimera {
namespace {

using Values = std::map<std::pair<std::string, std::string>, std::string>;

Values values_by_key(const Config& config) {
  Values all;
  for (const KeyValue& key : values(config)) {
    all[{std::string(key.section), std::string(key.name)}] = key.value;
  }
  return all;
}

// A difference that cannot be.
class Refusal {
 public:
  explicit Refusal(const std::string& path) : path_(path) {}

  [[noreturn]] void operator()(const std::string& key, const std::string& there,
                               const std::string& here, std::string_view reason) const {
    throw Error(ErrorCode::kUsage, cat(key, " is ", there, " in the checkpoint '", path_, "', but ",
                                       here, " here; ", reason));
  }

 private:
  const std::string& path_;
};

void check_same_model(const Manifest& manifest, const Config& config, const Refusal& refuse) {
  constexpr std::string_view kReason =
      "it is of another model: set the same, or take another checkpoint";
  for (const KeyValue& key : values(config)) {
    if (key.section != "model") continue;
    const auto found = manifest.model.find(std::string(key.name));
    const std::string there = found == manifest.model.end() ? "not known" : found->second;
    if (there != key.value) refuse(cat("model.", key.name), there, key.value, kReason);
  }
}

bool both_known(const DataIdentity& a, const DataIdentity& b) {
  return a != DataIdentity{} && b != DataIdentity{};
}

void check_same_data(const Values& there, const Values& here, const Manifest& manifest,
                     const DataIdentity& data, const Refusal& refuse) {
  constexpr std::string_view kReason =
      "the order of the data would be another: set the same, or begin a new run";
  constexpr std::array<std::pair<const char*, const char*>, 3> kKeys = {
      {{"train", "seed"}, {"train", "batch"}, {"data", "tokenizer"}}};
  for (const auto& [section, name] : kKeys) {
    const std::string &old = there.at({section, name}), &now = here.at({section, name});
    if (old != now) refuse(cat(section, ".", name), old, now, kReason);
  }
  const std::string &old = there.at({"data", "text"}), &now = here.at({"data", "text"});
  if (both_known(manifest.data, data) ? manifest.data != data : old != now) {
    refuse("data.text", cat(old, " (", manifest.data.windows, " sequences)"),
           cat(now, " (", data.windows, " sequences of another text)"), kReason);
  }
}

// What shapes the training but not what is trained on what.
std::vector<std::string> differences(const Values& there, const Values& here, const Config& config,
                                     const std::string& path) {
  std::vector<std::pair<const char*, const char*>> keys = {
      {"train", "steps"},        {"train", "learning_rate"}, {"train", "warmup_steps"},
      {"train", "weight_decay"}, {"train", "clip"},          {"data", "text"}};
  const auto name = config.pipeline.schedule;
  const bool asynchronous = !schedule_file(config.pipeline) && generator(name).asynchronous;
  if (asynchronous) {
    keys.insert(keys.end(), {{"train", "checkpoint_every"},
                             {"pipeline", "schedule"},
                             {"pipeline", "stages"},
                             {"pipeline", "split"}});
  }
  std::vector<std::string> lines;
  for (const auto& [section, key] : keys) {
    const std::string &old = there.at({section, key}), &now = here.at({section, key});
    if (old == now) continue;
    lines.push_back(cat(section, ".", key, " is ", now, ", was ", old, " in '", path, "'"));
  }
  return lines;
}

}  // namespace

std::vector<std::string> check_same_run(const Manifest& manifest, const std::string& path,
                                        const Config& config, const DataIdentity& data) {
  const Refusal refuse(path);
  check_same_model(manifest, config, refuse);
  const Values there = values_by_key(parse_config(manifest.config, cat(path, "/config.toml")));
  const Values here = values_by_key(config);
  check_same_data(there, here, manifest, data, refuse);
  if (config.train.steps < manifest.step) {  // after the last one the run can still end
    throw Error(ErrorCode::kUsage,
                cat("train.steps is ", config.train.steps, ", but the checkpoint '", path,
                    "' is after step ", manifest.step, "; set as many steps or more"));
  }
  return differences(there, here, config, path);
}

}  // namespace chimera
