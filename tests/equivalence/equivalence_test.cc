// Nothing depends on the layout but speed and memory: every schedule, cut and width trains to the
// weights of one device. Cases named after public reports against other systems are in
// docs/cases.md.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>

#include "chimera/base/text.h"
#include "tests/equivalence/tiny.h"

namespace chimera::tiny {
namespace {

// One device's results, each computed once.
const Result& oracle(const Config& config) {
  static std::map<std::string, Result> known;
  Config plain = config;
  plain.pipeline = {};
  const auto [entry, is_new] = known.try_emplace(print(plain));
  if (is_new) entry->second = run_one_device(plain);
  return entry->second;
}

std::string describe(const Config& config) {
  const PipelineConfig& p = config.pipeline;
  return cat(p.schedule, " D=", p.stages, " f=", p.pairs, " W=", p.width, " B=", p.micro_batch,
             " batch=", config.train.batch, " split=", p.split, " tied=", config.model.tied,
             " dropout=", config.model.dropout, " reduce=", p.reduce, " method=", p.method,
             " fused=", p.fused, " recompute=", p.recompute);
}

void expect_exact(const Config& config) {
  expect_equal(run_chimera(config), oracle(config), describe(config));
}

struct Layout {
  const char* schedule;
  int stages, pairs;
  const char* method = "direct";
  bool fused = false;
};

constexpr Layout kLayouts[] = {
    {"gpipe", 1, 1},   {"gpipe", 2, 1},   {"gpipe", 4, 1},   {"gpipe", 8, 1},   {"1f1b", 1, 1},
    {"1f1b", 2, 1},    {"1f1b", 4, 1},    {"1f1b", 8, 1},    {"chimera", 2, 1}, {"chimera", 4, 1},
    {"chimera", 4, 2}, {"chimera", 8, 1}, {"chimera", 8, 2}, {"chimera", 8, 4}};

Config with_layout(Config config, const Layout& layout) {
  config.pipeline.schedule = layout.schedule;
  config.pipeline.stages = layout.stages;
  config.pipeline.pairs = layout.pairs;
  config.pipeline.method = layout.method;
  config.pipeline.fused = layout.fused;
  return config;
}

// Each layout with N = 1, 2, 3, D, D + 1, 2D micro-batches of one sequence.
void expect_exact_in_every_layout(const Config& base) {
  for (const Layout& layout : kLayouts) {
    const int d = layout.stages;
    for (const int n : std::set<int>{1, 2, 3, d, d + 1, 2 * d}) {
      Config config = with_layout(base, layout);
      config.train.batch = n;
      expect_exact(config);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

// Reported cases (docs/cases.md): C12, C13, G3, G14, H1, H2, H8.
TEST(Equivalence, EveryScheduleTrainsAsOneDevice) { expect_exact_in_every_layout(tiny_config()); }

// Reported cases (docs/cases.md): G21.
TEST(Equivalence, TiedHeadsAndDropoutDependOnNoLayout) {
  Config config = tiny_config();
  config.model.tied = true;
  config.model.dropout = 0.1;
  expect_exact_in_every_layout(config);
}

// Reported cases (docs/cases.md): G21.
TEST(Equivalence, TiedHeadsAlone) {
  for (const Layout& layout : kLayouts) {
    Config config = with_layout(tiny_config(), layout);
    config.model.tied = true;
    expect_exact(config);
  }
}

// Reported cases (docs/cases.md): G25.
TEST(Equivalence, DropoutAlone) {
  for (const Layout& layout : kLayouts) {
    Config config = with_layout(tiny_config(), layout);
    config.model.dropout = 0.1;
    expect_exact(config);
  }
}

// GEMS, and the ways to N > D, with every kind of recompute and every reduction policy in turn.
// Reported cases (docs/cases.md): G26, G28, H24.
TEST(Equivalence, EveryMethodRecomputeAndReductionTrainsAsOneDevice) {
  Config config = tiny_config();
  config.model.dropout = 0.1;
  const std::vector<std::string> policies = {"at-end", "eager", "eager-opt"};
  std::size_t turn = 0;
  for (const Layout& layout :
       {Layout{"gems", 2, 1}, Layout{"gems", 3, 1}, Layout{"gems", 4, 1},
        Layout{"chimera", 2, 1, "doubling"}, Layout{"chimera", 4, 1, "doubling"},
        Layout{"chimera", 4, 1, "doubling", true}, Layout{"chimera", 4, 2, "doubling"},
        Layout{"chimera", 4, 1, "halving"}, Layout{"chimera", 8, 2, "halving"},
        Layout{"chimera", 8, 1, "doubling"}, Layout{"chimera", 4, 1}, Layout{"1f1b", 4, 1},
        Layout{"gpipe", 2, 1}}) {
    const int d = layout.stages;
    for (const int n : std::set<int>{1, d, 2 * d, 3 * d + 1}) {
      Config c = with_layout(config, layout);
      c.train.batch = n;
      c.pipeline.reduce = policies[turn % 3];
      const std::string some = d == 4 ? "1,0,2,1" : d == 2 ? "3,0" : "none";
      c.pipeline.recompute = turn % 2 == 0 ? "all" : some;
      c.pipeline.bucket_mb = turn % 2 == 0 ? 1e-3 : 16;
      ++turn;
      expect_exact(c);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

// Reported cases (docs/cases.md): G26, G28.
TEST(Equivalence, RecomputeIsTheSameBitForBit) {
  for (const Layout& layout : {Layout{"1f1b", 4, 1}, Layout{"chimera", 4, 1}}) {
    Config config = with_layout(tiny_config(), layout);
    config.model.dropout = 0.1;
    config.model.dtype = DType::kFloat32;
    const Result plain = run_chimera(config);
    for (const char* recompute : {"all", "1,0,2,1", "0,1,0,0"}) {
      config.pipeline.recompute = recompute;
      expect_same_bits(run_chimera(config), plain, describe(config));
    }
  }
}

// A batch that does not divide: micro-batches of different sizes, some of them empty, weigh as much
// as they hold.
// Reported cases (docs/cases.md): C13, G1, G6, G7, S3.
TEST(Equivalence, EveryCutOfTheBatchIsWeightedRightly) {
  for (const auto& [batch, width, micro] :
       {std::tuple(5, 4, 1), std::tuple(7, 1, 2), std::tuple(7, 2, 2), std::tuple(8, 1, 8),
        std::tuple(9, 3, 2), std::tuple(10, 2, 4)}) {
    for (const Layout& layout : {Layout{"1f1b", 2, 1}, Layout{"chimera", 2, 1},
                                 Layout{"gpipe", 1, 1}, Layout{"chimera", 4, 2}}) {
      Config config = with_layout(tiny_config(), layout);
      config.model.dropout = 0.1;
      config.train.batch = batch;
      config.pipeline.width = width;
      config.pipeline.micro_batch = micro;
      expect_exact(config);
    }
  }
}

// Reported cases (docs/cases.md): P1, P3.
TEST(Equivalence, UnevenSplitsAndOddLayerCountsLoseNoLayer) {
  for (const auto& [layers, stages, split] :
       {std::tuple(8, 4, "3,2,2,1"), std::tuple(8, 2, "1,7"), std::tuple(7, 2, ""),
        std::tuple(7, 3, ""), std::tuple(7, 4, ""), std::tuple(30, 4, "")}) {
    for (const char* schedule : {"1f1b", "chimera"}) {
      if (std::string(schedule) == "chimera" && stages % 2 != 0) continue;
      Config config = with_layout(tiny_config(), {schedule, stages, 1});
      config.model.layers = layers;
      config.train.steps = layers > 8 ? 2 : 10;
      config.pipeline.split = split;
      expect_exact(config);
    }
  }
}

TEST(Equivalence, TheReducePolicyChangesNothing) {
  for (const char* policy : {"at-end", "eager", "eager-opt"}) {
    Config config = with_layout(tiny_config(), {"chimera", 4, 1});
    config.pipeline.reduce = policy;
    config.pipeline.width = 2;
    config.train.batch = 8;
    config.model.tied = true;
    expect_exact(config);
  }
}

// Reported cases (docs/cases.md): G35.
TEST(Equivalence, LargerModelsAgreeToo) {
  for (const int hidden : {32, 96, 256}) {
    Config config = with_layout(tiny_config(), {"chimera", 2, 1});
    config.model.layers = 2;
    config.model.hidden = hidden;
    config.train.steps = 3;
    expect_exact(config);
  }
}

// Reported cases (docs/cases.md): G13.
TEST(Equivalence, ClippingUsesTheNormOverAllStages) {
  for (const double clip : {0.0, 0.1, 1e6}) {
    Config config = with_layout(tiny_config(), {"chimera", 4, 1});
    config.train.clip = clip;
    config.model.tied = true;
    expect_exact(config);
  }
}

TEST(Equivalence, TwoRunsOfOneLayoutAreTheSameBitForBit) {
  for (const Layout& layout :
       {Layout{"1f1b", 4, 1}, Layout{"chimera", 4, 1}, Layout{"chimera", 8, 2}}) {
    Config config = with_layout(tiny_config(), layout);
    config.model.dropout = 0.1;
    config.model.dtype = DType::kFloat32;
    config.train.batch = 9;
    config.pipeline.width = 2;
    expect_same_bits(run_chimera(config), run_chimera(config), describe(config));
  }
}

// With one pipe the sums are taken in the same order whatever D: clipping, norm and all.
// Reported cases (docs/cases.md): G15.
TEST(Equivalence, OnePipeIsTheSameBitForBitForEveryDepth) {
  Config config = tiny_config();
  config.train.steps = 20;
  config.train.clip = 0.1;
  config.model.dtype = DType::kFloat32;
  const Result first = run_chimera(with_layout(config, {"gpipe", 1, 1}));
  for (const Layout& layout :
       {Layout{"gpipe", 2, 1}, Layout{"gpipe", 4, 1}, Layout{"gpipe", 8, 1}, Layout{"1f1b", 8, 1},
        Layout{"1f1b", 1, 1}, Layout{"1f1b", 2, 1}, Layout{"1f1b", 4, 1}}) {
    const Config other = with_layout(config, layout);
    expect_same_bits(run_chimera(other), first, describe(other));
  }
}

TEST(Equivalence, BFloat16FollowsFloat32) {
  Config config = with_layout(tiny_config(), {"chimera", 4, 1});
  config.model.dtype = DType::kFloat32;
  const Result single = run_chimera(config);
  config.model.dtype = DType::kBFloat16;
  const Result half = run_chimera(config);
  for (std::size_t step = 0; step < single.losses.size(); ++step) {
    EXPECT_NEAR(half.losses[step], single.losses[step], 0.02 * single.losses[step]);
  }
}

// Lengths that change from step to step, and from replica to replica within one.
// Reported cases (docs/cases.md): H6, S6, S7.
TEST(Equivalence, SequencesMayChangeTheirLength) {
  Config config = tiny_config();
  config.model.sequence = 24;
  config.train.batch = 8;
  const auto by_step = [](std::int64_t sample) { return std::array{16, 24, 8}[sample / 8 % 3]; };
  const auto by_replica = [](std::int64_t sample) { return std::array{7, 8}[sample / 4 % 2]; };
  for (const Lengths& lengths : {Lengths(by_step), Lengths(by_replica)}) {
    const Result oracle = run_one_device(config, lengths);
    for (const Layout& layout : {Layout{"gpipe", 2, 1}, Layout{"1f1b", 4, 1},
                                 Layout{"chimera", 4, 1}, Layout{"chimera", 4, 2}}) {
      for (const int width : {1, 2}) {
        Config cut = with_layout(config, layout);
        cut.pipeline.width = width;
        expect_equal(run_chimera(cut, lengths), oracle, describe(cut));
      }
    }
  }
}

}  // namespace
}  // namespace chimera::tiny
