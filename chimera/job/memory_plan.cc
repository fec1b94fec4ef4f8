#include "chimera/job/memory_plan.h"

#include <algorithm>
#include <cmath>

#include "chimera/base/error.h"
#include "chimera/base/number.h"
#include "chimera/base/text.h"
#include "chimera/shape/parameters.h"
#include "chimera/shape/sizes.h"
#include "chimera/shape/split.h"
#include "chimera/simulate/simulate.h"

namespace chimera {
namespace {

StageMemory stage_memory(const StageSizes& sizes) {
  const auto bytes = [](std::int64_t count) { return static_cast<double>(count); };
  return {.weights = bytes(sizes.parameters),
          .stash = bytes(sizes.stash),
          .kept = bytes(sizes.kept),
          .forward_work = bytes(sizes.forward_work),
          .kept_forward_work = bytes(sizes.kept_forward_work),
          .recompute_work = bytes(sizes.recompute_work),
          .backward_work = bytes(sizes.backward_work),
          .activation = bytes(sizes.activation)};
}

// The gradient norm is taken in fp64, on a copy where the gradient is not, by the first worker that
// holds the parameter.
double norm_bytes(const ModelSpec& model, const Placement& placement, const std::vector<int>& split,
                  int worker) {
  if (model.dtype == DType::kFloat64) return 0;
  std::int64_t largest = 0;
  for (const int held : placement.stages_of(worker)) {
    for (const ParameterSpec& parameter : stage_parameters(model, split, held)) {
      int first = worker;
      for (const int stage : parameter.stages) {
        first = std::min(first, placement.holders(stage).front());
      }
      if (first == worker) largest = std::max(largest, parameter.elements());
    }
  }
  return 8.0 * static_cast<double>(largest);
}

Costs costs_by_operations(const ModelSpec& model, const std::vector<int>& split) {
  const std::vector<LayerCost> layers = layer_costs(model);
  Costs costs = Costs::uniform(static_cast<int>(split.size()), 0, 0);
  for (std::size_t stage = 0; stage < split.size(); ++stage) {
    const LayerRange range = layers_of_stage(split, static_cast<int>(stage));
    for (int layer = range.begin; layer < range.end; ++layer) {
      costs.forward_s[stage] += static_cast<double>(layers[static_cast<std::size_t>(layer)].flops);
    }
    costs.backward_s[stage] = 2 * costs.forward_s[stage];
  }
  return costs;
}

// The choice with one more block of one of the stages whose `bytes` are least; empty where all
// blocks are recomputed.
std::vector<int> one_more(const std::vector<int>& blocks, const std::vector<int>& split,
                          const std::vector<int>& stages,
                          const std::function<double(const std::vector<int>&)>& bytes) {
  std::vector<int> best;
  double least = 0;
  for (const int stage : stages) {
    std::vector<int> more = blocks;
    if (++more[static_cast<std::size_t>(stage)] > split[static_cast<std::size_t>(stage)]) continue;
    const double held = bytes(more);
    if (best.empty() || held < least) best = more, least = held;
  }
  return best;
}

}  // namespace

MemoryModel memory_model(const Config& config, const Placement& placement,
                         const std::vector<int>& split, const std::vector<int>& recomputed,
                         int sequences) {
  MemoryModel memory;
  for (std::size_t stage = 0; stage < split.size(); ++stage) {
    memory.stages.push_back(stage_memory(stage_sizes(config.model, split, static_cast<int>(stage),
                                                     {.sequences = sequences,
                                                      .recomputed_blocks = recomputed[stage],
                                                      .threads = config.pipeline.threads})));
  }
  for (int worker = 0; worker < placement.workers(); ++worker) {
    const std::vector<int>& stages = placement.stages_of(worker);
    const WeightSizes sizes = weight_sizes(config.model, split, stages);
    memory.weights.push_back(static_cast<double>(sizes.parameters));
    memory.gradients.push_back(static_cast<double>(sizes.gradients));
    memory.optimizer.push_back(static_cast<double>(sizes.optimizer));
    memory.step_work.push_back(norm_bytes(config.model, placement, split, worker));
  }
  return memory;
}

std::vector<double> predicted_peaks(const Config& config, const Program& program,
                                    const std::vector<int>& split, const MemoryModel& model) {
  return worker_peaks(program, simulate(program, costs_by_operations(config.model, split)), model);
}

std::vector<double> parse_memory(std::string_view name, const std::string& text, int count,
                                 std::string_view each) {
  if (text.empty()) return {};
  std::vector<double> bytes;
  const auto refuse = [&] {
    throw Error(ErrorCode::kUsage, cat(name, " is '", text, "'; expected gigabytes above 0, as 16",
                                       count == 1 ? ""
                                                  : cat(", or one number for each of the ", count,
                                                        " ", each, ", as \"16,16,8,16\"")));
  };
  for (const std::string_view word : chimera::split(text, ',')) {
    const auto value = parse_number<double>(trim(word));
    if (!value || !(*value > 0) || !std::isfinite(*value)) refuse();
    bytes.push_back(*value * 1e9);
  }
  if (bytes.size() > 1 && bytes.size() != static_cast<std::size_t>(count)) refuse();
  return bytes;
}

std::vector<double> memory_limits(const std::string& text, int workers) {
  std::vector<double> limits = parse_memory("pipeline.memory", text, workers, "workers");
  if (limits.size() == 1) limits.resize(static_cast<std::size_t>(workers), limits.front());
  return limits;
}

std::vector<int> fitting_recompute(
    const Placement& placement, const std::vector<int>& split, const std::vector<double>& limits,
    const std::function<std::vector<double>(const std::vector<int>&)>& peaks) {
  std::vector<int> blocks(split.size(), 0);
  for (;;) {
    const std::vector<double> now = peaks(blocks);
    std::vector<std::size_t> above;
    for (std::size_t worker = 0; worker < limits.size(); ++worker) {
      if (now[worker] > limits[worker]) above.push_back(worker);
    }
    std::stable_sort(above.begin(), above.end(), [&](std::size_t a, std::size_t b) {
      return now[a] - limits[a] > now[b] - limits[b];
    });
    std::vector<int> best;
    for (std::size_t i = 0; i < above.size() && best.empty(); ++i) {
      best = one_more(blocks, split, placement.stages_of(static_cast<int>(above[i])),
                      [&](const std::vector<int>& more) { return peaks(more)[above[i]]; });
    }
    if (best.empty()) return blocks;
    blocks = std::move(best);
  }
}

}  // namespace chimera
