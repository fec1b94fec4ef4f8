// Times are compared with wide margins here, for other programs may have the cores; how close they
// are where none has is measured by bench/emulate_accuracy.cc.
#include "chimera/runtime/emulate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "chimera/base/error.h"
#include "chimera/generate/generate.h"
#include "chimera/schedule/lower.h"
#include "chimera/schedule/recompute.h"
#include "chimera/schedule/text_form.h"
#include "chimera/simulate/simulate.h"

namespace chimera {
namespace {

// Whole numbers, so that sums of them are exact in any order.
MemoryModel uneven_memory(int stages, int workers) {
  MemoryModel model;
  for (int stage = 0; stage < stages; ++stage) {
    model.stages.push_back({.weights = 1000.0 + stage,
                            .stash = 100.0 + stage,
                            .kept = 10.0 + stage,
                            .forward_work = 30,
                            .kept_forward_work = 25,
                            .recompute_work = 35,
                            .backward_work = 50,
                            .activation = 7});
  }
  model.weights.assign(static_cast<std::size_t>(workers), 2000);
  model.gradients.assign(static_cast<std::size_t>(workers), 3000);
  model.optimizer.assign(static_cast<std::size_t>(workers), 4000);
  model.step_work.assign(static_cast<std::size_t>(workers), 20);
  return model;
}

Costs uneven_costs(int stages) {
  Costs costs = Costs::uniform(stages, 1, 2);
  for (int stage = 0; stage < stages; ++stage) {
    costs.forward_s[static_cast<std::size_t>(stage)] += 0.13 * (stage % 3);
    costs.boundary_bytes.push_back(100);
    costs.reduce_s.push_back(0.7 + 0.1 * stage);
    costs.stage_step_s.push_back(0.2);
  }
  costs.boundary_bytes.pop_back();
  costs.recompute_s.assign(static_cast<std::size_t>(stages), 0.9);
  costs.link = {.latency_s = 0.15, .bandwidth = 500};
  costs.links[{0, 1}] = {.latency_s = 0.3, .bandwidth = 200};
  costs.step_s = 0.4;
  return costs;
}

// Within a quarter; never less than predicted, but for the time a thread needs to get on.
void expect_close(double measured, double predicted, const std::string& what) {
  EXPECT_GT(measured, 0.9 * predicted) << what;
  EXPECT_LT(measured, 1.25 * predicted) << what;
}

std::vector<double> predicted_peaks(const EmulationSetting& setting) {
  return worker_peaks(setting.program, simulate(setting.program, setting.costs), setting.memory);
}

constexpr double kStretch = 0.005;

// Two steps in 5 ms a second; an asynchronous program has four micro-batches in each of its own.
EmulationSetting two_steps(const Program& program, const Costs& costs, const MemoryModel& memory) {
  return {.program = program,
          .costs = costs,
          .memory = memory,
          .steps = 2,
          .micros_per_step = 4,
          .stretch = kStretch};
}

TEST(Emulate, MeasuresWhatIsPredictedForEverySchedule) {
  const Costs costs = uneven_costs(4);
  const MemoryModel memory = uneven_memory(4, 4);
  for (const Generator& generator : generators()) {
    for (const bool again : {false, true}) {
      Spec spec{.stages = 4, .micros = 4};
      if (generator.asynchronous) spec.steps = 3;
      const Program program =
          lower(with_recompute(generate(generator.name, spec), std::vector<bool>(4, again)));
      const EmulationSetting setting = two_steps(program, costs, memory);
      const Emulation emulation = emulate(setting);
      const std::string what = std::string(generator.name) + (again ? ", recomputed" : "");
      expect_close(emulation.step_s, predicted_step_s(setting), what);
      const std::vector<double> peaks = predicted_peaks(setting);
      for (std::size_t worker = 0; worker < 4; ++worker) {
        // But for messages that are taken at about the time at which more is held.
        EXPECT_NEAR(emulation.peak_bytes[worker], peaks[worker], 14) << what << worker;
        ASSERT_EQ(emulation.timeline.rows[worker].size(), program.rows[worker].size());
      }
      EXPECT_EQ(first_start(emulation.timeline), 0);
    }
  }
}

TEST(Emulate, ClaimsExactlyTheBytesOfTheModelWhereTheOrderSaysAll) {
  Costs costs = Costs::uniform(4, 1, 2);
  MemoryModel memory = uneven_memory(4, 4);
  for (StageMemory& stage : memory.stages) stage.activation = 0;
  for (const char* name : {"1f1b", "chimera", "pipedream"}) {
    Spec spec{.stages = 4, .micros = 4};
    if (std::string(name) == "pipedream") spec.steps = 2;
    const Program program = lower(with_recompute(generate(name, spec), {true, false, true, false}));
    EmulationSetting setting = two_steps(program, costs, memory);
    setting.groups = 2;
    setting.stretch = 0.001;
    EXPECT_EQ(emulate(setting).peak_bytes, predicted_peaks(setting)) << name;
  }
}

// What is measured does not come from what is predicted.
TEST(Emulate, ShowsTheErrorOfAPredictionThatIsWrong) {
  const Costs costs = Costs::uniform(4, 1, 2), slow = Costs::uniform(4, 2, 4);
  MemoryModel memory = uneven_memory(4, 4), more = memory;
  for (double& bytes : more.optimizer) bytes *= 2;
  for (const char* name : {"1f1b", "chimera", "pipedream-2bw"}) {
    Spec spec{.stages = 4, .micros = 4};
    if (generator(name).asynchronous) spec.steps = 3;
    const Program program = lower(generate(name, spec));
    const EmulationSetting predicted = two_steps(program, costs, memory);
    const Emulation emulation = emulate(two_steps(program, slow, more));
    expect_close(emulation.step_s, 2 * predicted_step_s(predicted), name);
    EXPECT_NEAR(emulation.peak_bytes[0] - predicted_peaks(predicted)[0], 4000, 14) << name;
  }
}

// GPipe's first worker is slow to be followed: its messages pile up with it.
TEST(Emulate, AMessageIsItsMakersUntilItIsTaken) {
  Costs costs = Costs::uniform(2, 1, 1);
  costs.forward_s[1] = costs.backward_s[1] = 9;
  MemoryModel memory = uneven_memory(2, 2);
  for (StageMemory& stage : memory.stages) stage = {.activation = 1};
  memory.step_work = {0, 0};
  const Program program = lower(generate("gpipe", {.stages = 2, .micros = 4}));
  EXPECT_EQ(emulate(two_steps(program, costs, memory)).peak_bytes[0], 9003);
}

TEST(Emulate, WithABarrierAStepIsAsSimulated) {
  const Costs costs = uneven_costs(4);
  const MemoryModel memory = uneven_memory(4, 4);
  const Program program = lower(generate("chimera", {.stages = 4, .micros = 8}));
  EmulationSetting setting = two_steps(program, costs, memory);
  setting.groups = 2;
  setting.barrier = true;
  EXPECT_DOUBLE_EQ(predicted_step_s(setting), makespan(simulate(program, costs)));
  const Emulation emulation = emulate(setting);
  expect_close(emulation.step_s, predicted_step_s(setting), "with a barrier");
  expect_close(makespan(emulation.timeline), predicted_step_s(setting), "the timeline");
  // The sums of a worker one after the other, as the simulator has them.
  const Timeline predicted = simulate(program, costs);
  for (std::size_t worker = 0; worker < 4; ++worker) {
    auto sums = emulation.timeline.reductions[worker];
    ASSERT_EQ(sums.size(), predicted.reductions[worker].size());
    const auto by_end = [](const Interval& a, const Interval& b) { return a.end_s < b.end_s; };
    std::sort(sums.begin(), sums.end(), by_end);
    EXPECT_GT(sums[1].end_s - sums[0].end_s, 0.99 * costs.reduce(sums[1].action.stage));
  }
}

// hpcaitech/ColossalAI#4747: devices were less busy than the schedule says.
TEST(Emulate, HasTheBubblesThatAreSimulated) {
  constexpr int kMicros = 8;
  const Costs costs = uneven_costs(4);
  const MemoryModel memory = uneven_memory(4, 4);
  for (const Generator& generator : generators()) {
    Spec spec{.stages = 4, .micros = kMicros};
    if (generator.asynchronous) spec.steps = 2;
    const Program program = lower(generate(generator.name, spec));
    EmulationSetting setting = two_steps(program, costs, memory);
    setting.barrier = !generator.asynchronous;
    setting.micros_per_step = kMicros;
    const double measured = bubble_ratio(emulate(setting).timeline);
    EXPECT_NEAR(measured / bubble_ratio(simulate(program, costs)), 1, 0.15) << generator.name;
  }
}

// A sum of other groups that do not run costs what it would with them.
TEST(Emulate, ASumOverOneRankCostsWhatTheCostsSay) {
  Costs costs = Costs::uniform(2, 1, 1);
  costs.reduce_s = {20, 20};
  const MemoryModel memory = uneven_memory(2, 2);
  const Program program = lower(generate("1f1b", {.stages = 2, .micros = 2}));
  const EmulationSetting setting{.program = program,
                                 .costs = costs,
                                 .memory = memory,
                                 .steps = 1,
                                 .barrier = true,
                                 .stretch = kStretch};
  EXPECT_GT(emulate(setting).step_s, 20);
}

TEST(Emulate, ChoosesAStretchThatIsNeitherTooShortNorTooLong) {
  const MemoryModel memory = uneven_memory(4, 4);
  const Program program = lower(generate("1f1b", {.stages = 4, .micros = 4}));
  const Costs quick = Costs::uniform(4, 1e-4, 2e-4), uneven = [] {
    Costs costs = Costs::uniform(4, 1e-6, 10);
    return costs;
  }();
  EXPECT_DOUBLE_EQ(default_stretch({.program = program, .costs = quick, .memory = memory}), 40);
  const EmulationSetting bounded{.program = program, .costs = uneven, .memory = memory};
  EXPECT_LT(default_stretch(bounded) * 5 * predicted_step_s(bounded), 21);
}

TEST(Emulate, RefusesWhatItCannotRun) {
  const Costs costs = Costs::uniform(4, 1, 2);
  const MemoryModel memory = uneven_memory(4, 4), other = uneven_memory(4, 3);
  const Program program = lower(generate("1f1b", {.stages = 4, .micros = 4}));
  const Program endless = lower(generate("pipedream", {.stages = 4, .micros = 4, .steps = 2}));
  const auto refusal = [](const EmulationSetting& setting) -> std::string {
    try {
      (void)emulate(setting);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      return error.what();
    }
    return "";
  };
  const auto expect_refusal = [&](const EmulationSetting& setting, const std::string& part) {
    const std::string text = refusal(setting);
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect_refusal({.program = program, .costs = costs, .memory = memory, .groups = 65},
                 "65 groups of 4 workers are 260 ranks");
  expect_refusal({.program = program, .costs = costs, .memory = memory, .groups = 0}, "groups");
  expect_refusal({.program = program, .costs = costs, .memory = memory, .steps = 1}, "steps is 1");
  expect_refusal({.program = program, .costs = costs, .memory = memory, .stretch = -1}, "stretch");
  expect_refusal({.program = program, .costs = costs, .memory = other}, "for 3 workers");
  expect_refusal({.program = endless, .costs = costs, .memory = memory, .micros_per_step = 3},
                 "whole steps");
}

}  // namespace
}  // namespace chimera
