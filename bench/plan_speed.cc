// How long the planner takes: a plan for 2,048 ranks, and the partition of 200 unequal blocks over
// 64 stages, with the simulations that judge it.
//
//     build/plan_speed --rounds 5
//
// Prints one JSON object for each: the median over the rounds, and how much was simulated.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "chimera/base/clock.h"
#include "chimera/base/error.h"
#include "chimera/base/random.h"
#include "chimera/plan/bounds.h"
#include "chimera/plan/partition.h"
#include "chimera/plan/plan.h"
#include "chimera/plan/testing.h"
#include "chimera/schedule/lower.h"
#include "chimera/simulate/simulate.h"

namespace chimera {
namespace {

using Json = nlohmann::ordered_json;

// The median of so many rounds, and what the last of them said.
Json timed(int rounds, const std::function<Json()>& act) {
  std::vector<double> seconds;
  Json line;
  for (int round = 0; round < rounds; ++round) {
    const double began_s = now_s();
    line = act();
    seconds.push_back(now_s() - began_s);
  }
  std::sort(seconds.begin(), seconds.end());
  line["seconds"] = seconds[seconds.size() / 2];
  return line;
}

Json plan_for_many(bool barrier) {
  constexpr int kBlocks = 64, kRanks = 2048, kGigabytes = 16;
  PlanRequest request;
  request.profile = test_profile(kBlocks);
  request.machine = test_machine(kRanks, kGigabytes);
  request.ranks = request.batch = kRanks;
  request.barrier = barrier;
  const Plans plans = plan(request);
  return {{"what", barrier ? "plan, 2,048 ranks" : "plan, 2,048 ranks, no barrier"},
          {"considered", plans.considered},
          {"simulated", plans.simulated},
          {"best", describe(plans.best.front().candidate)}};
}

BlockLoads unequal_blocks(int blocks) {
  const RandomStream stream(1, 2, 3);
  BlockLoads loads;
  for (int i = 0; i < blocks; ++i) {
    loads.blocks.push_back(0.5 + 2 * stream.uniform(static_cast<std::uint64_t>(i)));
  }
  loads.last = 3;
  return loads;
}

Costs costs_of(const BlockLoads& loads, const std::vector<int>& split) {
  Costs costs;
  auto block = loads.blocks.begin();
  for (const int count : split) {
    costs.forward_s.push_back(std::accumulate(block, block + count, 0.0));
    block += count;
  }
  costs.forward_s.back() += loads.last;
  for (const double forward : costs.forward_s) costs.backward_s.push_back(2 * forward);
  costs.link.latency_s = 0.1;
  return costs;
}

Json partition_of_many(const std::string& schedule) {
  constexpr int kBlocks = 200, kStages = 64;
  const BlockLoads loads = unequal_blocks(kBlocks);
  const Program program = lower(generate(schedule, {.stages = kStages, .micros = kStages}));
  const Placement& placement = program.source.placement;
  const RowWork work(program.source.rows, 1);
  const std::vector<int> none(kStages, 0);
  SplitProblem problem;
  problem.blocks = kBlocks;
  problem.start = balanced_by_load(loads, placement);
  problem.worth = [&](const std::vector<int>& split) {
    return Worth{0, makespan(simulate(program, costs_of(loads, split)))};
  };
  problem.bound = [&](const std::vector<int>& split) {
    return Worth{0, work.least_step_s(placement, costs_of(loads, split), none, true)};
  };
  problem.load = [&](const std::vector<int>& split) { return costs_of(loads, split).forward_s; };
  const SplitChoice choice = best_split(problem);
  return {{"what", "partition, 200 blocks over 64 stages, " + schedule}, {"tries", choice.tries}};
}

void measure(int rounds) {
  for (const bool barrier : {true, false}) {
    std::cout << timed(rounds, [&] { return plan_for_many(barrier); }).dump() << std::endl;
  }
  for (const char* schedule : {"1f1b", "chimera"}) {
    std::cout << timed(rounds, [&] { return partition_of_many(schedule); }).dump() << std::endl;
  }
}

}  // namespace
}  // namespace chimera

int main(int argc, char** argv) {
  CLI::App app("How long the planner takes");
  int rounds = 5;
  bool quick = false;
  app.add_option("--rounds", rounds, "Rounds, of which the median is taken")
      ->check(CLI::PositiveNumber);
  app.add_flag("--quick", quick, "One round");
  CLI11_PARSE(app, argc, argv);
  try {
    chimera::measure(quick ? 1 : rounds);
  } catch (const chimera::Error& error) {
    std::cerr << "plan_speed: error: " << error.what() << "\n";
    return chimera::exit_code(error.code());
  }
}
