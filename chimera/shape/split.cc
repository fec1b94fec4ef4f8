#include "chimera/shape/split.h"

#include <limits>
#include <numeric>
#include <string>

#include "chimera/base/check.h"
#include "chimera/base/error.h"
#include "chimera/base/number.h"
#include "chimera/base/text.h"
#include "chimera/shape/parameters.h"

// balanced_split runs one dynamic program three times. best[s][n] is the least cost of the first n
// blocks on the first s stages, where a stage may not pass the limits found so far:
//   1. the largest FLOPs of a stage, without a limit;
//   2. the largest parameter count, among splits that reach the first minimum;
//   3. the sum of squared FLOPs, among splits that reach both: the most even one.
// The third matters where one stage dominates: a head as costly as three blocks would otherwise
// leave the other stages any split below that. Covered by split_test.cc, which tries every split.

namespace chimera {
namespace {

void check_stages(int layers, int stages) {
  if (stages < 1) {
    throw Error(ErrorCode::kUsage,
                cat("pipeline.stages is ", stages, ", expected at least 1; set pipeline.stages"));
  }
  if (stages > layers) {
    throw Error(ErrorCode::kUsage, cat("pipeline.stages is ", stages, " for a model of ", layers,
                                       layers == 1 ? " layer" : " layers",
                                       ", expected at most one stage a layer; try ", layers,
                                       layers == 1 ? " stage" : " stages", " or more layers"));
  }
}

int parse_part(std::string_view part, std::string_view text) {
  part = trim(part);
  const auto value = parse_number<int>(part);
  if (!value || *value < 1) {
    throw Error(ErrorCode::kUsage,
                cat("pipeline.split '", text, "' has the part '", part,
                    "', expected a whole number of layers, at least 1; write it like 3,2,2,1"));
  }
  return *value;
}

std::int64_t block_flops(const ModelSpec& spec) {
  const std::int64_t tokens = spec.sequence, hidden = spec.hidden;
  const std::int64_t weights = 12 * hidden * hidden;  // 3 + 1 of attention, 4 + 4 of the MLP
  return 2 * tokens * weights + 4 * tokens * tokens * hidden;
}

// What a stage costs; stages are compared by one field at a time.
struct Totals {
  std::vector<LayerCost> before;  // before[n]: sum over the first n blocks, embedding included
  LayerCost head;
  int blocks = 0;

  [[nodiscard]] LayerCost stage(int begin, int end) const {
    LayerCost cost = before[static_cast<std::size_t>(end)];
    if (begin > 0) {
      cost.parameters -= before[static_cast<std::size_t>(begin)].parameters;
      cost.flops -= before[static_cast<std::size_t>(begin)].flops;
    }
    if (end == blocks) {
      cost.parameters += head.parameters;
      cost.flops += head.flops;
    }
    return cost;
  }
};

Totals totals_of(const ModelSpec& spec) {
  const std::vector<LayerCost> costs = layer_costs(spec);
  Totals totals{.before = {costs.front()}, .head = costs.back(), .blocks = spec.layers};
  for (int block = 1; block <= spec.layers; ++block) {
    const LayerCost& last = totals.before.back();
    const LayerCost& cost = costs[static_cast<std::size_t>(block)];
    totals.before.push_back({last.parameters + cost.parameters, last.flops + cost.flops});
  }
  return totals;
}

enum class Goal : std::uint8_t { kFlops, kParameters, kEven };

struct Limits {
  std::int64_t flops = std::numeric_limits<std::int64_t>::max();
  std::int64_t parameters = std::numeric_limits<std::int64_t>::max();
};

double combine(Goal goal, double before, const LayerCost& stage) {
  const double flops = static_cast<double>(stage.flops);
  switch (goal) {
    case Goal::kFlops:
      return std::max(before, flops);
    case Goal::kParameters:
      return std::max(before, static_cast<double>(stage.parameters));
    case Goal::kEven:
      return before + flops * flops;
  }
  return 0;
}

std::vector<int> best_split(const Totals& totals, int stages, Goal goal, const Limits& limits) {
  struct Cell {
    double cost = std::numeric_limits<double>::infinity();
    int begin = 0;  // first block of the last stage
  };
  const auto width = static_cast<std::size_t>(totals.blocks) + 1;
  std::vector<std::vector<Cell>> best(static_cast<std::size_t>(stages) + 1,
                                      std::vector<Cell>(width));
  best[0][0].cost = 0;
  for (std::size_t s = 1; s < best.size(); ++s) {
    for (int end = static_cast<int>(s); end <= totals.blocks; ++end) {
      if (s + 1 < best.size() && end == totals.blocks) continue;  // leaves nothing for later stages
      for (int begin = static_cast<int>(s) - 1; begin < end; ++begin) {
        const LayerCost stage = totals.stage(begin, end);
        if (stage.flops > limits.flops || stage.parameters > limits.parameters) continue;
        const double before = best[s - 1][static_cast<std::size_t>(begin)].cost;
        const double cost = combine(goal, before, stage);
        Cell& cell = best[s][static_cast<std::size_t>(end)];
        if (cost < cell.cost) cell = {cost, begin};
      }
    }
  }
  std::vector<int> split(static_cast<std::size_t>(stages));
  int end = totals.blocks;
  for (auto s = static_cast<std::size_t>(stages); s >= 1; --s) {
    const int begin = best[s][static_cast<std::size_t>(end)].begin;
    split[s - 1] = end - begin;
    end = begin;
  }
  return split;
}

LayerCost largest(const Totals& totals, std::span<const int> split) {
  LayerCost most;
  int begin = 0;
  for (const int blocks : split) {
    const LayerCost stage = totals.stage(begin, begin + blocks);
    most.parameters = std::max(most.parameters, stage.parameters);
    most.flops = std::max(most.flops, stage.flops);
    begin += blocks;
  }
  return most;
}

}  // namespace

LayerRange layers_of_stage(std::span<const int> split, int stage) {
  CHECK(0 <= stage && stage < std::ssize(split));
  const auto before = split.first(static_cast<std::size_t>(stage));
  const int first_block = 1 + std::accumulate(before.begin(), before.end(), 0);
  const bool last = stage + 1 == std::ssize(split);
  return {.begin = stage == 0 ? 0 : first_block,
          .end = first_block + split[static_cast<std::size_t>(stage)] + (last ? 1 : 0)};
}

int recompute_cut(std::span<const int> split, int stage, int recomputed_blocks) {
  const int blocks = split[static_cast<std::size_t>(stage)];
  CHECK(0 <= recomputed_blocks && recomputed_blocks <= blocks);
  const LayerRange range = layers_of_stage(split, stage);
  if (recomputed_blocks == 0) return range.begin;
  if (recomputed_blocks == blocks) return range.end;
  return range.begin + (stage == 0 ? 1 : 0) + recomputed_blocks;
}

std::vector<LayerCost> layer_costs(const ModelSpec& spec) {
  const std::int64_t tokens = spec.sequence, hidden = spec.hidden;
  std::vector<LayerCost> costs(static_cast<std::size_t>(spec.layer_count()));
  for (int layer = 0; layer < spec.layer_count(); ++layer) {
    LayerCost& cost = costs[static_cast<std::size_t>(layer)];
    for (const ParameterSpec& parameter : layer_parameters(spec, layer)) {
      cost.parameters += parameter.elements();
    }
    cost.flops = block_flops(spec);
  }
  costs.front().flops = tokens * hidden;  // one sum
  costs.back().flops = 2 * tokens * hidden * spec.vocabulary;
  return costs;
}

std::vector<int> parse_split(std::string_view text, int layers, int stages) {
  check_stages(layers, stages);
  std::vector<int> result;
  for (const std::string_view part : split(text, ',')) result.push_back(parse_part(part, text));
  if (std::ssize(result) != stages) {
    throw Error(ErrorCode::kUsage,
                cat("pipeline.split '", text, "' has ", result.size(),
                    result.size() == 1 ? " part" : " parts", ", expected one for each of the ",
                    stages, " stages; change pipeline.split or pipeline.stages"));
  }
  const auto sum = std::accumulate(result.begin(), result.end(), std::int64_t{0});
  if (sum != layers) {
    throw Error(ErrorCode::kUsage,
                cat("pipeline.split '", text, "' sums to ", sum, ", expected the model's ", layers,
                    " layers; change pipeline.split or model.layers"));
  }
  return result;
}

std::vector<int> balanced_split(const ModelSpec& spec, int stages) {
  check_stages(spec.layers, stages);
  const Totals totals = totals_of(spec);
  Limits limits;
  limits.flops = largest(totals, best_split(totals, stages, Goal::kFlops, limits)).flops;
  limits.parameters =
      largest(totals, best_split(totals, stages, Goal::kParameters, limits)).parameters;
  return best_split(totals, stages, Goal::kEven, limits);
}

}  // namespace chimera
