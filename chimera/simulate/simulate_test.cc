#include "chimera/simulate/simulate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "chimera/base/error.h"
#include "chimera/generate/generate.h"
#include "chimera/schedule/lower.h"
#include "chimera/simulate/measure.h"

namespace chimera {
namespace {

Timeline run(std::string_view name, Spec spec, double forward, double backward) {
  return simulate(lower(generate(name, spec)), Costs::uniform(spec.stages, forward, backward));
}

double length(std::string_view name, int stages, int micros, double forward, double backward) {
  return makespan(run(name, {.stages = stages, .micros = micros}, forward, backward));
}

// Paper, table 2: bubble ratio (D-1)/(N+D-1) whatever forward and backward cost.
TEST(Simulate, GivesGPipeAnd1F1BTheirBubbleRatio) {
  for (const char* name : {"gpipe", "1f1b"}) {
    for (int d = 1; d <= 12; ++d) {
      for (int n = 1; n <= 3 * d; ++n) {
        const Timeline timeline = run(name, {.stages = d, .micros = n}, 1, 2);
        EXPECT_DOUBLE_EQ(makespan(timeline), 3.0 * (n + d - 1)) << name << " " << d << " " << n;
        EXPECT_NEAR(bubble_ratio(timeline), (d - 1.0) / (n + d - 1), 1e-12);
      }
    }
  }
}

// Paper, section 3.4: C_f = D forwards and C_b = 2D - 2 backwards on the critical path.
TEST(Simulate, GivesChimeraItsCriticalPath) {
  for (int d = 2; d <= 32; d += 2) {
    EXPECT_DOUBLE_EQ(length("chimera", d, d, 1, 2), d + 2.0 * (2 * d - 2)) << d;
    EXPECT_DOUBLE_EQ(length("chimera", d, d, 1, 1), 3.0 * d - 2) << d;
  }
}

// Figure 7 (b) and its continuation: intermediate bubbles cost (D-2) F for each further unit.
TEST(Simulate, GivesDirectConcatenationItsLength) {
  const auto lengths = [](int d) {
    std::vector<double> result;
    for (int k = 1; k <= 4; ++k) result.push_back(length("chimera", d, k * d, 1, 2));
    return result;
  };
  EXPECT_EQ(lengths(4), (std::vector<double>{16, 30, 44, 58}));
  EXPECT_EQ(lengths(8), (std::vector<double>{36, 66, 96, 126}));
  for (int k = 1; k <= 4; ++k) EXPECT_DOUBLE_EQ(length("chimera", 6, 6 * k, 1, 1), 12.0 * k + 4);
}

// Table 2 and section 3.5: (D-2f)/(2fN+D-2f) at equal workloads, (D-2)/(3N/2+D-2) at B = 2F.
TEST(Simulate, GivesChimeraItsBubbleRatio) {
  for (int d = 2; d <= 16; d += 2) {
    for (int f = 1; f <= d / 2; ++f) {
      if (d / 2 % f != 0) continue;
      const Timeline timeline = run("chimera", {.stages = d, .micros = d, .pairs = f}, 1, 1);
      EXPECT_NEAR(bubble_ratio(timeline), (d - 2.0 * f) / (2.0 * f * d + d - 2.0 * f), 1e-12);
    }
    const Timeline timeline = run("chimera", {.stages = d, .micros = d}, 1, 2);
    EXPECT_NEAR(bubble_ratio(timeline), (d - 2.0) / (1.5 * d + d - 2.0), 1e-12);
  }
}

TEST(Simulate, AddsLatencyAndTransferOnTheCriticalPath) {
  const Program program = lower(generate("gpipe", {.stages = 2, .micros = 1}));
  Costs costs = Costs::uniform(2, 1, 2);
  costs.link.latency_s = 0.25;
  costs.link.bandwidth = 8;
  costs.boundary_bytes = {4};
  EXPECT_DOUBLE_EQ(makespan(simulate(program, costs)), 1 + 0.75 + 1 + 2 + 0.75 + 2);
}

TEST(Simulate, SendsMessagesOfOneChannelOneAfterTheOther) {
  const Program program = lower(generate("gpipe", {.stages = 2, .micros = 3}));
  Costs costs = Costs::uniform(2, 1, 1);
  costs.link.bandwidth = 1;
  costs.boundary_bytes = {4};
  // Forwards of stage 0 end at 1, 2, 3; messages arrive at 5, 9, 13; gradients leave from 15.
  EXPECT_DOUBLE_EQ(makespan(simulate(program, costs)), 13 + 1 + 1 + 3 * 4 + 1);
}

// D = 4, B = 2F: workers 1 and 2 end at 14, workers 0 and 3 at 16; stages 1 and 2 lie on the
// former, 0 and 3 on the latter. So the sums of each pair of workers take turns.
TEST(Simulate, ReductionsOfOneWorkerGoOneAfterTheOther) {
  const Schedule schedule = generate("chimera", {.stages = 4, .micros = 4});
  Costs costs = Costs::uniform(4, 1, 2);
  costs.reduce_s.assign(4, 4);
  const auto at = [&](ReducePolicy policy) {
    return makespan(simulate(lower(schedule, policy), costs));
  };
  EXPECT_DOUBLE_EQ(at(ReducePolicy::kAtEnd), 16 + 4 + 4);
  // Stage 3 is ready at 9 + 1 and reduced by 14, within the backwards that remain.
  EXPECT_DOUBLE_EQ(at(ReducePolicy::kEager), 16 + 4);
  EXPECT_LE(at(ReducePolicy::kEagerOpt), at(ReducePolicy::kAtEnd));
  EXPECT_LE(at(ReducePolicy::kEager), at(ReducePolicy::kAtEnd));
}

TEST(Simulate, TheSumThatIsReadyFirstGoesFirst) {
  const Program program = lower(generate("chimera", {.stages = 4, .micros = 4}));
  Costs costs = Costs::uniform(4, 1, 2);
  costs.reduce_s = {1, 1, 1, 40};  // stage 3 is ready first, and keeps workers 0 and 3 busy
  const Timeline timeline = simulate(program, costs);
  double end_of_3 = 0, end_of_0 = 0;
  for (const Interval& sum : timeline.reductions[0]) {
    (sum.action.stage == 3 ? end_of_3 : end_of_0) = sum.end_s;
  }
  EXPECT_DOUBLE_EQ(end_of_0, end_of_3 + 1);
  EXPECT_DOUBLE_EQ(makespan(timeline), end_of_0);
}

TEST(Simulate, ChannelsMayDiffer) {
  const Program program = lower(generate("gpipe", {.stages = 3, .micros = 1}));
  Costs costs = Costs::uniform(3, 1, 2);
  costs.boundary_bytes = {4, 4};
  costs.link = {1, 8};
  costs.links[{0, 1}] = {0, 4};
  EXPECT_DOUBLE_EQ(makespan(simulate(program, costs)), 1 + 1 + 1 + 1.5 + 1 + 2 + 1.5 + 2 + 1.5 + 2);
}

TEST(Simulate, StepsTakeWhatTheirStagesTake) {
  Costs costs = Costs::uniform(4, 1, 2);
  costs.step_s = 1;
  costs.stage_step_s = {8, 4, 2, 1};
  const auto end = [&](const char* schedule) {
    return makespan(simulate(lower(generate(schedule, {.stages = 4, .micros = 4})), costs));
  };
  EXPECT_DOUBLE_EQ(end("gpipe"), 21 + 1 + 8);
  EXPECT_DOUBLE_EQ(end("chimera"), 16 + 1 + 8 + 1);
}

TEST(Simulate, CountsTheSpanOfAnAction) {
  Costs costs = Costs::uniform(2, 3, 5);
  EXPECT_DOUBLE_EQ(costs.compute({.op = Op::kForward, .span = 2}), 6);
  EXPECT_DOUBLE_EQ(costs.compute({.op = Op::kBackwardInput}), 2.5);
  EXPECT_DOUBLE_EQ(costs.compute({.op = Op::kSendActivation}), 0);
  costs.backward_input_s = {2, 2};
  EXPECT_DOUBLE_EQ(costs.compute({.op = Op::kBackwardInput, .stage = 1}), 2);
  EXPECT_DOUBLE_EQ(costs.compute({.op = Op::kBackwardWeight, .stage = 1}), 3);
}

TEST(Simulate, RefusesCostsThatMakeNoSense) {
  const Program program = lower(generate("1f1b", {.stages = 2, .micros = 2}));
  EXPECT_THROW((void)simulate(program, Costs::uniform(3, 1, 2)), Error);
  EXPECT_THROW((void)simulate(program, Costs::uniform(2, -1, 2)), Error);
  EXPECT_THROW((void)simulate(program, Costs::uniform(2, std::nan(""), 2)), Error);
  Costs costs = Costs::uniform(2, 1, 2);
  costs.backward_input_s = {1, 3};
  EXPECT_THROW((void)simulate(program, costs), Error);
  costs = Costs::uniform(2, 1, 2);
  costs.link.bandwidth = 0;
  EXPECT_THROW((void)simulate(program, costs), Error);
}

TEST(Simulate, LetsAWorkerTakePartInAsManyAllReducesAtOnceAsTheCostsSay) {
  const Program program =
      lower(generate("chimera", {.stages = 2, .micros = 2}), ReducePolicy::kAtEnd);
  Costs costs = Costs::uniform(2, 1, 1);
  const double computed = makespan(simulate(program, costs));
  costs.reduce_s = {4, 4};
  EXPECT_DOUBLE_EQ(makespan(simulate(program, costs)), computed + 8);
  costs.reduces_at_once = 2;
  EXPECT_DOUBLE_EQ(makespan(simulate(program, costs)), computed + 4);
  costs.reduces_at_once = 0;
  EXPECT_THROW((void)simulate(program, costs), Error);
}

TEST(Simulate, RefusesAProgramThatCannotEnd) {
  Program program = lower(generate("1f1b", {.stages = 2, .micros = 2}));
  std::swap(program.rows[1].front(), program.rows[1].back());
  program.rows[0].erase(program.rows[0].begin() + 1);
  EXPECT_THROW((void)simulate(program, Costs::uniform(2, 1, 2)), Error);
}

TEST(MeasuredCosts, AreMeansOverWorkersAndMicroBatches) {
  const Action forward{.op = Op::kForward}, backward{.op = Op::kBackward};
  const Action fused{.op = Op::kForward, .span = 2};
  const Timeline timeline{{{{forward, 0, 2}, {backward, 5, 8}}, {{fused, 1, 9}}}};
  const Costs costs = measured_costs(timeline, 2);
  EXPECT_DOUBLE_EQ(costs.forward_s[0], 10.0 / 3);
  EXPECT_DOUBLE_EQ(costs.backward_s[0], 3);
  EXPECT_DOUBLE_EQ(costs.forward_s[1], 0);
}

TEST(Timeline, KeepsComputationAndMovesItToTheOrigin) {
  const Action forward{.op = Op::kForward}, backward{.op = Op::kBackward};
  const Action recv{.op = Op::kRecvActivation};
  const Timeline timeline{{{{recv, 0, 2}, {forward, 2, 3}, {backward, 4, 6}}, {{forward, 3, 4}}}};
  const Timeline part = compute_part(timeline);
  EXPECT_DOUBLE_EQ(makespan(part), 4);
  EXPECT_EQ(part.rows[0].size(), 2U);
  EXPECT_DOUBLE_EQ(busy(part, 0), 3);
  EXPECT_DOUBLE_EQ(bubble_ratio(part), (8.0 - 4) / 8);
}

}  // namespace
}  // namespace chimera
