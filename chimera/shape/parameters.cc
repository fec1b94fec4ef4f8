#include "chimera/shape/parameters.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "chimera/base/check.h"
#include "chimera/base/text.h"
#include "chimera/shape/split.h"

namespace chimera {
namespace {

// GPT-2's choice: weights from N(0, 0.02^2), and the two projections that add to the residual
// stream smaller by the root of how many of them add up.
constexpr double kDeviation = 0.02;

// Collects the parameters of one layer, numbering them.
class Table {
 public:
  explicit Table(int layer) : layer_(layer) {}

  void normal(std::string name, std::vector<std::int64_t> shape, double deviation = kDeviation) {
    add(std::move(name), std::move(shape), Initial::kNormal, deviation);
  }
  void zeros(std::string name, std::int64_t extent) {
    add(std::move(name), {extent}, Initial::kZeros, 0);
  }
  void norm(const std::string& name, std::int64_t extent) {
    add(name + ".weight", {extent}, Initial::kOnes, 0);
    zeros(name + ".bias", extent);
  }
  void linear(const std::string& name, std::int64_t in, std::int64_t out,
              double deviation = kDeviation) {
    normal(name + ".weight", {in, out}, deviation);
    zeros(name + ".bias", out);
  }

  std::vector<ParameterSpec> take() { return std::move(rows_); }

 private:
  void add(std::string name, std::vector<std::int64_t> shape, Initial initial, double deviation) {
    rows_.push_back({.name = std::move(name),
                     .shape = std::move(shape),
                     .layer = layer_,
                     .index = static_cast<int>(rows_.size()),
                     .initial = initial,
                     .deviation = deviation});
  }

  int layer_;
  std::vector<ParameterSpec> rows_;
};

std::vector<ParameterSpec> embedding_parameters(const ModelSpec& spec) {
  Table table(0);
  table.normal("wte.weight", {spec.vocabulary, spec.hidden});
  table.normal("wpe.weight", {spec.position_count(), spec.hidden});
  return table.take();
}

std::vector<ParameterSpec> block_parameters(const ModelSpec& spec, int layer) {
  const std::int64_t hidden = spec.hidden;
  const double residual = kDeviation / std::sqrt(2.0 * spec.layers);
  const std::string h = cat("h.", layer - 1, ".");
  Table table(layer);
  table.norm(h + "ln_1", hidden);
  table.linear(h + "attn.c_attn", hidden, 3 * hidden);
  table.linear(h + "attn.c_proj", hidden, hidden, residual);
  table.norm(h + "ln_2", hidden);
  table.linear(h + "mlp.c_fc", hidden, 4 * hidden);
  table.linear(h + "mlp.c_proj", 4 * hidden, hidden, residual);
  return table.take();
}

std::vector<ParameterSpec> head_parameters(const ModelSpec& spec) {
  Table table(spec.head_layer());
  table.norm("ln_f", spec.hidden);
  if (!spec.tied) table.normal("lm_head.weight", {spec.vocabulary, spec.hidden});
  std::vector<ParameterSpec> rows = table.take();
  if (spec.tied) rows.push_back(embedding_parameters(spec).front());
  return rows;
}

// The stages that use each name, ascending.
std::map<std::string, std::vector<int>> users(const ModelSpec& spec, std::span<const int> split) {
  std::map<std::string, std::vector<int>> stages;
  for (int stage = 0; stage < std::ssize(split); ++stage) {
    const LayerRange range = layers_of_stage(split, stage);
    for (int layer = range.begin; layer < range.end; ++layer) {
      for (const ParameterSpec& parameter : layer_parameters(spec, layer)) {
        std::vector<int>& list = stages[parameter.name];
        if (list.empty() || list.back() != stage) list.push_back(stage);
      }
    }
  }
  return stages;
}

}  // namespace

std::int64_t ParameterSpec::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) product *= extent;
  return product;
}

std::vector<ParameterSpec> layer_parameters(const ModelSpec& spec, int layer) {
  CHECK(0 <= layer && layer < spec.layer_count());
  if (layer == 0) return embedding_parameters(spec);
  if (layer == spec.head_layer()) return head_parameters(spec);
  return block_parameters(spec, layer);
}

std::vector<ParameterSpec> stage_parameters(const ModelSpec& spec, std::span<const int> split,
                                            int stage) {
  const auto stages = users(spec, split);
  const LayerRange range = layers_of_stage(split, stage);
  std::vector<ParameterSpec> result;
  std::set<std::string> seen;
  for (int layer = range.begin; layer < range.end; ++layer) {
    for (ParameterSpec& parameter : layer_parameters(spec, layer)) {
      if (!seen.insert(parameter.name).second) continue;
      parameter.stages = stages.at(parameter.name);
      result.push_back(std::move(parameter));
    }
  }
  return result;
}

std::vector<ParameterSpec> model_parameters(const ModelSpec& spec) {
  const std::vector<int> whole = {spec.layers};
  return stage_parameters(spec, whole, 0);
}

std::int64_t parameter_count(const ModelSpec& spec) {
  std::int64_t count = 0;
  for (const ParameterSpec& parameter : model_parameters(spec)) count += parameter.elements();
  return count;
}

}  // namespace chimera
