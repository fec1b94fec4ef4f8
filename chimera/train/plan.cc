#include "chimera/train/plan.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <string>

#include "chimera/base/check.h"
#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/generate/generate.h"
#include "chimera/model/split.h"
#include "chimera/schedule/lower.h"

namespace chimera {
namespace {

// More than any machine has, and few enough that the product does not overflow.
constexpr std::int64_t kMaxRanks = 4096;

void check_pipeline(const PipelineConfig& pipeline) {
  constexpr std::array<std::string_view, 1> kTransports = {"local"};
  if (pipeline.transport != kTransports[0]) {
    throw Error(ErrorCode::kUsage, unknown_word("transport", pipeline.transport, kTransports));
  }
  const std::int64_t ranks = std::int64_t{pipeline.stages} * pipeline.width;
  if (ranks > kMaxRanks) {
    throw Error(ErrorCode::kUsage,
                cat("pipeline.stages x pipeline.width is ", pipeline.stages, " x ", pipeline.width,
                    " = ", ranks, " workers; expected at most ", kMaxRanks));
  }
}

Schedule make_schedule(const PipelineConfig& pipeline, int micros) {
  Spec spec{.stages = pipeline.stages, .micros = micros};
  if (pipeline.pairs != 1) spec.pairs = pipeline.pairs;
  return generate(pipeline.schedule, spec);
}

std::vector<int> make_split(const Config& config) {
  if (config.pipeline.split.empty()) return balanced_split(config.model, config.pipeline.stages);
  return parse_split(config.pipeline.split, config.model.layers, config.pipeline.stages);
}

// In order of layers, each once, with the stages that use it.
std::vector<ParameterSpec> all_parameters(const ModelSpec& model, const std::vector<int>& split) {
  std::vector<ParameterSpec> all;
  std::set<std::string> seen;
  for (int stage = 0; stage < std::ssize(split); ++stage) {
    for (ParameterSpec& parameter : stage_parameters(model, split, stage)) {
      if (seen.insert(parameter.name).second) all.push_back(std::move(parameter));
    }
  }
  return all;
}

}  // namespace

int TrainPlan::owner(const ParameterSpec& parameter) const {
  int lowest = workers();
  for (const int stage : parameter.stages) {
    lowest = std::min(lowest, program.source.placement.holders(stage).front());
  }
  return lowest;
}

TrainPlan make_plan(Config config, std::int64_t data_vocabulary) {
  if (config.model.vocabulary == 0) {
    if (data_vocabulary > std::numeric_limits<int>::max()) {
      throw Error(ErrorCode::kData, cat("the data's vocabulary is ", data_vocabulary,
                                        "; expected at most ", std::numeric_limits<int>::max()));
    }
    config.model.vocabulary = static_cast<int>(data_vocabulary);
  }
  validate(config.model);
  check_pipeline(config.pipeline);
  TrainPlan plan;
  plan.cut = cut(config.train.batch, config.pipeline.width, config.pipeline.micro_batch);
  plan.split = make_split(config);
  plan.program =
      lower(make_schedule(config.pipeline, plan.cut.micros), reduce_policy(config.pipeline.reduce));
  plan.verdict = verify(plan.program);
  CHECK(plan.verdict.ok());  // generators return what verifies
  plan.parameters = all_parameters(config.model, plan.split);
  plan.config = std::move(config);
  return plan;
}

}  // namespace chimera
