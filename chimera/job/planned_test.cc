// From a configuration to a plan, and back to a configuration that trains as planned.
#include "chimera/job/planned.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

#include "chimera/base/text.h"
#include "chimera/generate/testing.h"
#include "chimera/job/model_profile.h"
#include "chimera/job/train_plan.h"

namespace chimera {
namespace {

constexpr std::array kRanks = {1, 2, 3, 4, 6, 8, 12, 16, 24};

Config small_gpt2() {
  return parse_config(
      "[model]\nlayers = 8\nhidden = 32\nheads = 4\nsequence = 24\nvocabulary = 301\n"
      "[train]\nbatch = 24\nsteps = 50\nclip = 0\n",
      "small.toml");
}

// Blocks of a millisecond and a head of two, for one sequence.
Profile timed_profile(const Config& config) {
  Profile profile = sized_profile(config, {1, 2, 3, 4});
  for (LayerKind& kind : profile.kinds) {
    const double one = kind.name == kHead ? 2e-3 : kind.name == kBlock ? 1e-3 : 0.1e-3;
    for (LayerPoint& point : kind.points) {
      point.forward_s = point.recompute_s = one * (0.3 + 0.7 * point.sequences);
      point.backward_s = 2 * point.forward_s;
      point.backward_input_s = point.forward_s;
    }
  }
  return profile;
}

Machine machine_of(int devices) {
  Machine machine;
  machine.name = "round numbers";
  machine.nodes = devices;
  machine.within = machine.between = {{20e-6, 1e9}, {20e-6, 1e9}};
  return machine;
}

Plans plans_for(const Config& config, int ranks) {
  return plan(plan_request(config, timed_profile(config), machine_of(ranks), ranks));
}

// As `chimera plan -o` writes it and `chimera train` reads it.
TrainPlan trained_as_planned(const Config& config, const Candidate& candidate) {
  const std::string text = print(with_candidate(config, candidate));
  return make_plan(parse_config(text, "plan.toml"), 301);
}

// Every plan that is printed, not the first alone.
void expect_all_train(const Config& config, int ranks) {
  const Plans plans = plans_for(config, ranks);
  EXPECT_GT(plans.best.size(), 3U) << ranks;
  for (const Plan& found : plans.best) {
    const Candidate& candidate = found.candidate;
    SCOPED_TRACE(cat(ranks, " ranks: ", describe(candidate)));
    const TrainPlan trained = trained_as_planned(config, candidate);
    EXPECT_EQ(trained.ranks(), ranks);
    EXPECT_EQ(trained.split, candidate.split);
    EXPECT_EQ(trained.recomputed, candidate.recomputed);
    EXPECT_EQ(trained.cut.micros, candidate.spec.micros);
    EXPECT_EQ(trained.asynchronous, candidate.generator->asynchronous);
    const int steps = trained.proved().source.micros / candidate.spec.micros;
    EXPECT_EQ(trained.proved().rows,
              candidate_program(candidate, reduce_policy(config.pipeline.reduce), steps).rows);
  }
}

TEST(Planned, EveryPlanTrainsAsItIs) {
  for (const int ranks : kRanks) expect_all_train(small_gpt2(), ranks);
}

TEST(Planned, EveryPlanTrainsAsItIsWithClippingOrTiedWeights) {
  Config clipped = small_gpt2(), tied = small_gpt2();
  clipped.train.clip = 1;
  tied.model.tied = true;
  for (const int ranks : {2, 4, 8}) {
    expect_all_train(clipped, ranks);
    expect_all_train(tied, ranks);
  }
}

// Plans differ in what they recompute, and none is refused for memory when it is to be trained.
TEST(Planned, EveryPlanTrainsAsItIsWithinItsMemory) {
  for (const int ranks : {2, 4, 8}) {
    Config config = small_gpt2();
    const Plan free = plans_for(config, ranks).best.front();
    int recomputing = 0;
    for (const double part : {0.5, 0.7, 0.9}) {
      config.pipeline.memory = cat(part * std::ranges::max(free.prediction.peak_bytes) / 1e9);
      expect_all_train(config, ranks);
      for (const Plan& found : plans_for(config, ranks).best) {
        recomputing += std::ranges::max(found.candidate.recomputed) > 0 ? 1 : 0;
      }
    }
    EXPECT_GT(recomputing, 0) << ranks;
  }
}

TEST(Planned, PlansOfEveryScheduleAndMethodAreAmongThem) {
  std::set<std::string> names;
  for (const int ranks : kRanks) {
    for (const Plan& found : plans_for(small_gpt2(), ranks).best) {
      names.insert(name_with_method(*found.candidate.generator, found.candidate.spec));
    }
  }
  for (const Generator& generator : generators()) {
    for (const Spec& way : ways_of(generator, 4, 8)) {
      EXPECT_TRUE(names.contains(name_with_method(generator, way)))
          << name_with_method(generator, way);
    }
  }
}

}  // namespace
}  // namespace chimera
