#include "chimera/plan/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "chimera/base/index.h"
#include "chimera/base/random.h"
#include "chimera/base/text.h"
#include "chimera/generate/generate.h"
#include "chimera/plan/bounds.h"
#include "chimera/schedule/lower.h"
#include "chimera/simulate/simulate.h"

namespace chimera {
namespace {

BlockLoads random_loads(int blocks, std::uint64_t seed) {
  const RandomStream stream(seed, 1, 2);
  BlockLoads loads;
  for (int i = 0; i < blocks; ++i) {
    loads.blocks.push_back(0.5 + 2 * stream.uniform(static_cast<std::uint64_t>(i)));
  }
  loads.first = stream.uniform(1000);
  loads.last = 3 * stream.uniform(1001);
  return loads;
}

std::vector<double> stage_loads(const BlockLoads& loads, const std::vector<int>& split) {
  std::vector<double> sums;
  std::size_t block = 0;
  for (const int count : split) {
    double sum = sums.empty() ? loads.first : 0;
    for (int i = 0; i < count; ++i) sum += loads.blocks[block++];
    sums.push_back(sum);
  }
  sums.back() += loads.last;
  return sums;
}

double busiest(const BlockLoads& loads, const Placement& placement, const std::vector<int>& split) {
  const std::vector<double> sums = stage_loads(loads, split);
  double most = 0;
  for (int worker = 0; worker < placement.workers(); ++worker) {
    double sum = 0;
    for (const int stage : placement.stages_of(worker)) sum += sums[as_index(stage)];
    most = std::max(most, sum);
  }
  return most;
}

// Every one, by brute force.
void for_each_split(int blocks, int stages,
                    const std::function<void(const std::vector<int>&)>& visit) {
  std::vector<int> split;
  const std::function<void(int)> extend = [&](int left) {
    const int rest = stages - static_cast<int>(split.size());
    if (rest == 1) {
      split.push_back(left);
      visit(split);
      split.pop_back();
      return;
    }
    for (int count = 1; count <= left - (rest - 1); ++count) {
      split.push_back(count);
      extend(left - count);
      split.pop_back();
    }
  };
  extend(blocks);
}

TEST(Partition, ByLoadIsWhatBruteForceFindsForOneAndForTwoPipes) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    for (const int stages : {1, 2, 3, 4, 6}) {
      const int blocks = stages + static_cast<int>(seed % 6);
      const BlockLoads loads = random_loads(blocks, seed);
      std::vector<Placement> placements = {Placement::linear(stages)};
      if (stages % 2 == 0) placements.push_back(Placement::opposite(stages));
      for (const Placement& placement : placements) {
        double least = HUGE_VAL;
        for_each_split(blocks, stages, [&](const std::vector<int>& split) {
          least = std::min(least, busiest(loads, placement, split));
        });
        const std::vector<int> found = balanced_by_load(loads, placement);
        EXPECT_EQ(std::accumulate(found.begin(), found.end(), 0), blocks);
        EXPECT_NEAR(busiest(loads, placement, found), least, 1e-9 * least)
            << "seed " << seed << ", " << stages << " stages, " << placement.pipes() << " pipes";
      }
    }
  }
}

TEST(Partition, KnowsThatAWorkerHoldsTwoStages) {
  // The head is as much as four blocks. One stage a worker: it stands alone with a block; with
  // stages 0 and 3 on one worker, that worker's other stage is small, too.
  BlockLoads loads;
  loads.blocks.assign(12, 1.0);
  loads.last = 4;
  const std::vector<int> linear = balanced_by_load(loads, Placement::linear(4));
  const std::vector<int> opposite = balanced_by_load(loads, Placement::opposite(4));
  EXPECT_EQ(busiest(loads, Placement::linear(4), linear), 5);
  EXPECT_EQ(busiest(loads, Placement::opposite(4), opposite), 8);
  EXPECT_EQ(opposite[0] + opposite[3], 4);
}

TEST(Partition, OfMorePipesSpreadsTheLoadNoWorseThanForTwo) {
  const BlockLoads loads = random_loads(32, 7);
  const Placement four = Placement::bidirectional(8, 2);
  const double found = busiest(loads, four, balanced_by_load(loads, four));
  EXPECT_LE(found, busiest(loads, four, balanced_by_load(loads, Placement::opposite(8))));
}

// A schedule's makespan, judged by the simulator, on splits of unequal blocks.
struct Pipeline {
  BlockLoads loads;
  Program program;

  [[nodiscard]] Costs costs(const std::vector<int>& split) const {
    Costs costs;
    costs.forward_s = stage_loads(loads, split);
    for (const double forward : costs.forward_s) costs.backward_s.push_back(2 * forward);
    costs.link.latency_s = 0.1;
    return costs;
  }
  [[nodiscard]] double seconds(const std::vector<int>& split) const {
    return makespan(simulate(program, costs(split)));
  }
  [[nodiscard]] SplitProblem problem(int blocks) const {
    SplitProblem problem;
    problem.blocks = blocks;
    problem.start = balanced_by_load(loads, program.source.placement);
    problem.worth = [this](const std::vector<int>& split) { return Worth{0, seconds(split)}; };
    problem.bound = [this](const std::vector<int>& split) {
      return Worth{0, RowWork(program.source.rows, 1)
                          .least_step_s(program.source.placement, costs(split),
                                        std::vector<int>(split.size(), 0), true)};
    };
    return problem;
  }
};

TEST(Partition, OfFewSplitsTheBestIsBruteForces) {
  int tries = 0;
  for (const char* schedule : {"gpipe", "1f1b", "gems", "chimera"}) {
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
      const int blocks = 9;
      const Pipeline pipeline{random_loads(blocks, seed),
                              lower(generate(schedule, {.stages = 4, .micros = 6}))};
      double least = HUGE_VAL;
      for_each_split(blocks, 4, [&](const std::vector<int>& split) {
        least = std::min(least, pipeline.seconds(split));
      });
      const SplitChoice choice = best_split(pipeline.problem(blocks));
      EXPECT_TRUE(choice.exact);
      EXPECT_NEAR(choice.worth.seconds, least, 1e-9) << schedule << ", seed " << seed;
      tries += choice.tries;
    }
  }
  EXPECT_LT(tries, 4 * 6 * 56 * 2 / 3) << "bounds leave little out";
}

TEST(Partition, OfManySplitsMovesMakeTheStartBetterWithinTheTries) {
  const int blocks = 40;
  const Pipeline pipeline{random_loads(blocks, 3),
                          lower(generate("chimera", {.stages = 8, .micros = 8}))};
  SplitProblem problem = pipeline.problem(blocks);
  problem.most_tries = 30;
  const SplitChoice choice = best_split(problem);
  EXPECT_FALSE(choice.exact);
  EXPECT_LE(choice.tries, 30);
  EXPECT_LE(choice.worth.seconds, pipeline.seconds(problem.start));
  EXPECT_EQ(std::accumulate(choice.split.begin(), choice.split.end(), 0), blocks);
}

TEST(Partition, MemoryCountsBeforeTime) {
  Pipeline pipeline{random_loads(8, 2), lower(generate("1f1b", {.stages = 4, .micros = 4}))};
  SplitProblem problem = pipeline.problem(8);
  // Only splits whose first stage has one block have room.
  problem.worth = [&](const std::vector<int>& split) {
    return Worth{split[0] - 1.0, pipeline.seconds(split)};
  };
  const auto time_bound = problem.bound;
  problem.bound = [&](const std::vector<int>& split) {
    return Worth{split[0] - 1.0, time_bound(split).seconds};
  };
  const SplitChoice choice = best_split(problem);
  EXPECT_EQ(choice.split[0], 1);
  double least = HUGE_VAL;
  for_each_split(8, 4, [&](const std::vector<int>& split) {
    if (split[0] == 1) least = std::min(least, pipeline.seconds(split));
  });
  EXPECT_NEAR(choice.worth.seconds, least, 1e-9);
}

// How long it takes is measured by bench/plan_speed.cc.
TEST(Partition, OfTwoHundredBlocksOverSixtyFourStagesTriesFewSplits) {
  const BlockLoads loads = random_loads(200, 5);
  for (const char* schedule : {"1f1b", "chimera"}) {
    const Pipeline pipeline{loads, lower(generate(schedule, {.stages = 64, .micros = 64}))};
    SplitProblem problem = pipeline.problem(200);
    EXPECT_EQ(std::accumulate(problem.start.begin(), problem.start.end(), 0), 200);
    int bounds = 0;
    const auto bound = problem.bound;
    problem.bound = [&](const std::vector<int>& split) {
      ++bounds;
      return bound(split);
    };
    problem.load = [&](const std::vector<int>& split) { return stage_loads(loads, split); };
    const SplitChoice choice = best_split(problem);
    EXPECT_LE(choice.worth.seconds, pipeline.seconds(problem.start));
    EXPECT_LE(choice.tries, problem.most_tries);
    EXPECT_LT(bounds, 1'000) << "of 64 x 63 moves those that may help";
  }
}

}  // namespace
}  // namespace chimera
