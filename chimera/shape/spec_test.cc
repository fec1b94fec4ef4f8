#include "chimera/shape/spec.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "chimera/base/error.h"
#include "chimera/shape/parameters.h"
#include "chimera/shape/split.h"

namespace chimera {
namespace {

ModelSpec tiny_spec() {
  return {.layers = 8,
          .hidden = 32,
          .heads = 2,
          .sequence = 16,
          .vocabulary = 101,
          .dtype = DType::kFloat64};
}

std::string refusal(const ModelSpec& spec) {
  try {
    validate(spec);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  return "";
}

TEST(ModelSpec, TheTinyModelIsLegal) { EXPECT_EQ(refusal(tiny_spec()), ""); }

TEST(ModelSpec, RefusalsNameTheKeyTheValueAndWhatWasExpected) {
  struct Case {
    std::function<void(ModelSpec&)> change;
    std::string part;
  };
  const std::vector<Case> cases = {
      {[](ModelSpec& s) { s.kind = "gtp2"; }, "did you mean 'gpt2'"},
      {[](ModelSpec& s) { s.layers = 0; }, "model.layers is 0"},
      {[](ModelSpec& s) { s.hidden = -4; }, "model.hidden is -4"},
      {[](ModelSpec& s) { s.heads = 0; }, "model.heads is 0"},
      {[](ModelSpec& s) { s.sequence = 0; }, "model.sequence is 0"},
      {[](ModelSpec& s) { s.vocabulary = 0; }, "model.vocabulary is 0"},
      {[](ModelSpec& s) { s.heads = 5; }, "try hidden 30 or 35"},
      {[](ModelSpec& s) { s.positions = 8; }, "model.positions is 8"},
      {[](ModelSpec& s) { s.dropout = 1; }, "model.dropout is 1"},
      {[](ModelSpec& s) { s.dropout = -0.1; }, "model.dropout is -0.1"},
      {[](ModelSpec& s) { s.dropout = std::numeric_limits<double>::quiet_NaN(); }, "model.dropout"},
      {[](ModelSpec& s) { s.dtype = DType::kInt64; }, "model.dtype is int64"},
  };
  for (const Case& c : cases) {
    ModelSpec spec = tiny_spec();
    c.change(spec);
    EXPECT_NE(refusal(spec).find(c.part), std::string::npos) << c.part << ": " << refusal(spec);
  }
}

// The GPT-2 of the Chimera paper's evaluation, as the authors' code builds it.
TEST(ParameterCount, IsThatOfThePapersGpt2) {
  const ModelSpec spec{.layers = 64,
                       .hidden = 1280,
                       .heads = 20,
                       .sequence = 632,
                       .vocabulary = 50257,
                       .positions = 1024};
  validate(spec);
  EXPECT_EQ(parameter_count(spec), 1'389'327'360);
  const std::vector<LayerCost> costs = layer_costs(spec);
  EXPECT_EQ(costs[0].parameters, 65'639'680);
  EXPECT_EQ(costs[1].parameters, 19'677'440);
  EXPECT_EQ(costs[65].parameters, 64'331'520);
}

TEST(ParameterCount, CountsATiedHeadOnce) {
  ModelSpec spec = tiny_spec();
  const std::int64_t untied = parameter_count(spec);
  spec.tied = true;
  EXPECT_EQ(parameter_count(spec), untied - std::int64_t{spec.vocabulary} * spec.hidden);
}

// Reported cases (docs/cases.md): P1.
TEST(Parameters, StagesHaveEachOneOnceInEverySplit) {
  for (const bool tied : {false, true}) {
    ModelSpec spec = tiny_spec();
    spec.tied = tied;
    for (const std::vector<int>& split : std::vector<std::vector<int>>{{8}, {3, 2, 2, 1}, {1, 7}}) {
      std::map<std::string, std::vector<int>> users;
      for (int stage = 0; stage < std::ssize(split); ++stage) {
        for (const ParameterSpec& parameter : stage_parameters(spec, split, stage)) {
          const auto [entry, fresh] = users.emplace(parameter.name, parameter.stages);
          EXPECT_EQ(entry->second, parameter.stages) << parameter.name;
          if (parameter.stages.size() == 1) {
            EXPECT_TRUE(fresh);
            EXPECT_EQ(parameter.stages.front(), stage);
          }
        }
      }
      EXPECT_EQ(users.size(), model_parameters(spec).size());
      const int last = static_cast<int>(split.size()) - 1;
      const std::vector<int> both = last > 0 ? std::vector<int>{0, last} : std::vector<int>{0};
      EXPECT_EQ(users.at("wte.weight"), tied ? both : std::vector<int>{0});
      EXPECT_EQ(users.contains("lm_head.weight"), !tied);
    }
  }
}

}  // namespace
}  // namespace chimera
