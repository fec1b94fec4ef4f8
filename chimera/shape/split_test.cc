#include "chimera/shape/split.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <tuple>

#include "chimera/base/error.h"
#include "chimera/base/random.h"
#include "chimera/shape/parameters.h"

namespace chimera {
namespace {

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  return "";
}

// What balanced_split makes small, in its order of importance.
using Rank = std::tuple<std::int64_t, std::int64_t, double>;

Rank rank_of(const ModelSpec& spec, const std::vector<int>& split) {
  const std::vector<LayerCost> costs = layer_costs(spec);
  Rank rank{0, 0, 0};
  for (int stage = 0; stage < std::ssize(split); ++stage) {
    const LayerRange range = layers_of_stage(split, stage);
    LayerCost sum;
    for (int layer = range.begin; layer < range.end; ++layer) {
      sum.flops += costs[static_cast<std::size_t>(layer)].flops;
      sum.parameters += costs[static_cast<std::size_t>(layer)].parameters;
    }
    std::get<0>(rank) = std::max(std::get<0>(rank), sum.flops);
    std::get<1>(rank) = std::max(std::get<1>(rank), sum.parameters);
    std::get<2>(rank) += static_cast<double>(sum.flops) * static_cast<double>(sum.flops);
  }
  return rank;
}

void each_split(int layers, int stages, std::vector<int>& split,
                const std::function<void(const std::vector<int>&)>& visit) {
  if (stages == 1) {
    split.push_back(layers);
    visit(split);
    split.pop_back();
    return;
  }
  for (int blocks = 1; blocks <= layers - (stages - 1); ++blocks) {
    split.push_back(blocks);
    each_split(layers - blocks, stages - 1, split, visit);
    split.pop_back();
  }
}

// Reported cases (docs/cases.md): P4.
TEST(ParseSplit, ReadsOnePartAStage) {
  EXPECT_EQ(parse_split("3,2,2,1", 8, 4), (std::vector<int>{3, 2, 2, 1}));
  EXPECT_EQ(parse_split(" 5 , 3 ", 8, 2), (std::vector<int>{5, 3}));
  EXPECT_EQ(parse_split("8", 8, 1), (std::vector<int>{8}));
}

// Reported cases (docs/cases.md): P4.
TEST(ParseSplit, RefusalsNameTheTextAndWhatWasExpected) {
  struct Case {
    std::string text;
    int stages;
    std::string part;
  };
  const std::vector<Case> cases = {
      {"3,2,2,2", 4, "sums to 9, expected the model's 8 layers"},
      {"4,4", 4, "has 2 parts, expected one for each of the 4 stages"},
      {"8,0", 2, "the part '0'"},
      {"9,-1", 2, "the part '-1'"},
      {"4,four", 2, "the part 'four'"},
      {"4,4.0", 2, "the part '4.0'"},
      {"", 1, "the part ''"},
      {"4,,4", 3, "the part ''"},
      {"99999999999,1", 2, "the part '99999999999'"},
      {"2147483647,2147483647", 2, "sums to 4294967294"},
      {"1,1,1,1,1,1,1,1,1", 9, "pipeline.stages is 9 for a model of 8 layers"},
      {"8", 0, "pipeline.stages is 0"},
  };
  for (const Case& c : cases) {
    const std::string text = refusal([&] { (void)parse_split(c.text, 8, c.stages); });
    EXPECT_NE(text.find(c.part), std::string::npos) << c.text << ": " << text;
  }
}

TEST(LayersOfStage, PutEmbeddingFirstAndHeadLast) {
  const std::vector<int> split = {3, 2, 2, 1};
  const std::vector<std::pair<int, int>> expected = {{0, 4}, {4, 6}, {6, 8}, {8, 10}};
  for (int stage = 0; stage < 4; ++stage) {
    const LayerRange range = layers_of_stage(split, stage);
    EXPECT_EQ(std::pair(range.begin, range.end), expected[static_cast<std::size_t>(stage)]);
  }
  const std::vector<int> whole = {8};
  EXPECT_EQ(layers_of_stage(whole, 0).end, 10);
}

// Reported cases (docs/cases.md): P4.
TEST(BalancedSplit, IsTheBestOfAllSplits) {
  const RandomStream stream(3, 1);
  std::uint64_t draws = 0;
  const auto draw = [&](int low, int high) {
    return low + static_cast<int>(stream.uniform(draws++) * (high - low + 1));
  };
  for (int trial = 0; trial < 60; ++trial) {
    const int heads = draw(1, 3);
    ModelSpec spec{.layers = draw(1, 9), .hidden = heads * draw(4, 24), .heads = heads};
    spec.sequence = draw(4, 64);
    spec.vocabulary = draw(2, 4000);
    spec.tied = draw(0, 1) == 1;
    for (int stages = 1; stages <= std::min(spec.layers, 5); ++stages) {
      Rank best{std::numeric_limits<std::int64_t>::max(), 0, 0};
      std::vector<int> prefix;
      each_split(spec.layers, stages, prefix,
                 [&](const auto& split) { best = std::min(best, rank_of(spec, split)); });
      const std::vector<int> split = balanced_split(spec, stages);
      EXPECT_EQ(std::accumulate(split.begin(), split.end(), 0), spec.layers);
      const Rank found = rank_of(spec, split);
      EXPECT_EQ(std::get<0>(found), std::get<0>(best));
      EXPECT_EQ(std::get<1>(found), std::get<1>(best));
      EXPECT_NEAR(std::get<2>(found), std::get<2>(best), 1e-9 * std::get<2>(best));
    }
  }
}

TEST(BalancedSplit, GivesACostlyHeadFewerBlocks) {
  const ModelSpec paper{.layers = 64,
                        .hidden = 1280,
                        .heads = 20,
                        .sequence = 632,
                        .vocabulary = 50257,
                        .positions = 1024};
  const std::vector<int> split = balanced_split(paper, 8);
  EXPECT_EQ(std::accumulate(split.begin(), split.end(), 0), 64);
  EXPECT_LT(split.back(), 8);
  EXPECT_LT(std::get<0>(rank_of(paper, split)), std::get<0>(rank_of(paper, std::vector(8, 8))));
}

TEST(BalancedSplit, RefusesMoreStagesThanLayers) {
  const ModelSpec spec{.layers = 3, .hidden = 8, .heads = 1, .sequence = 4, .vocabulary = 5};
  const std::string text = refusal([&] { (void)balanced_split(spec, 4); });
  EXPECT_NE(text.find("pipeline.stages is 4 for a model of 3 layers"), std::string::npos) << text;
}

}  // namespace
}  // namespace chimera
