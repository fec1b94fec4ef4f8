#include "chimera/plan/bounds.h"

#include <gtest/gtest.h>

#include "chimera/base/random.h"
#include "chimera/generate/testing.h"
#include "chimera/schedule/recompute.h"
#include "chimera/simulate/steady.h"

namespace chimera {
namespace {

std::vector<double> draw(const RandomStream& stream, int stages, std::uint64_t from, double most) {
  std::vector<double> values;
  for (int i = 0; i < stages; ++i) {
    values.push_back(most * stream.uniform(from + static_cast<std::uint64_t>(i)));
  }
  return values;
}

Costs random_costs(int stages, std::uint64_t seed) {
  const RandomStream stream(seed, 3, 4);
  Costs costs;
  costs.forward_s = draw(stream, stages, 0, 1);
  costs.backward_s = draw(stream, stages, 100, 2);
  costs.recompute_s = draw(stream, stages, 200, 1);
  costs.stage_step_s = draw(stream, stages, 300, seed % 2 == 0 ? 5 : 0.5);
  costs.reduce_s = draw(stream, stages, 400, 1);
  costs.step_s = 0.1;
  costs.boundary_bytes = draw(stream, stages - 1, 500, 0.3);
  costs.link = {.latency_s = 0.05, .bandwidth = 2};
  return costs;
}

MemoryModel random_memory(const Placement& placement, std::uint64_t seed) {
  const RandomStream stream(seed, 5, 6);
  MemoryModel memory;
  for (int stage = 0; stage < placement.stages(); ++stage) {
    const auto at = [&](std::uint64_t i) {
      return stream.uniform(10 * static_cast<std::uint64_t>(stage) + i);
    };
    memory.stages.push_back({.weights = at(0),
                             .stash = 1 + at(1),
                             .kept = at(2),
                             .forward_work = at(3),
                             .kept_forward_work = at(4),
                             .recompute_work = at(5),
                             .backward_work = at(6),
                             .activation = at(7)});
  }
  memory.weights = draw(stream, placement.workers(), 500, 1);
  memory.gradients = memory.optimizer = memory.step_work = memory.weights;
  return memory;
}

// One way to make one schedule, with the stages that are recomputed; `steps` as it is looked at.
struct Way {
  const Generator& generator;
  Spec spec;
  std::vector<int> recomputed;
  int steps = 1;

  [[nodiscard]] Schedule schedule(int of_steps) const {
    Spec with = spec;
    if (generator.asynchronous) with.steps = of_steps;
    return generate(generator.name, with);
  }
  [[nodiscard]] Program program(int of_steps, bool mark = true) const {
    std::vector<bool> marked(recomputed.begin(), recomputed.end());
    if (!mark) marked.assign(marked.size(), false);
    return lower(with_recompute(schedule(of_steps), marked));
  }
  [[nodiscard]] std::string words() const {
    return cat(describe(generator.name, spec), " R ", join(recomputed, ","));
  }
};

// None, all, and some of the stages.
std::vector<std::vector<int>> recomputes(int stages) {
  const auto count = static_cast<std::size_t>(stages);
  std::vector<int> some(count, 0);
  for (std::size_t stage = 0; stage < count; stage += 2) some[stage] = 1;
  return {std::vector<int>(count, 0), std::vector<int>(count, 1), some};
}

// Calls visit(way, seed) for every generator, way, recompute and several sizes.
template <class Visit>
void for_each_way(Visit visit) {
  std::uint64_t seed = 0;
  for (const Generator& generator : generators()) {
    for (const int stages : {1, 2, 3, 4, 6, 8}) {
      for (const int micros : {1, 2, 3, 4, 7, 8, 12, 17}) {
        for (const Spec& spec : ways_of(generator, stages, micros)) {
          for (const std::vector<int>& recomputed : recomputes(stages)) {
            Way way{.generator = generator, .spec = spec, .recomputed = recomputed};
            if (generator.asynchronous) way.steps = 2 + 2 * stages / micros;
            visit(way, ++seed);
          }
        }
      }
    }
  }
}

constexpr double kRounded = 1 + 1e-9;

TEST(Bounds, AreNeverAboveTheSimulatedStepOfASynchronousSchedule) {
  for_each_way([](const Way& way, std::uint64_t seed) {
    if (way.generator.asynchronous) return;
    const Costs costs = random_costs(way.spec.stages, seed);
    const Schedule schedule = way.schedule(1);
    const RowWork work(schedule.rows, 1);
    const Program program = way.program(1);
    const auto bound = [&](bool barrier) {
      return work.least_step_s(schedule.placement, costs, way.recomputed, barrier);
    };
    EXPECT_LE(bound(true), makespan(simulate(program, costs)) * kRounded) << way.words();
    EXPECT_LE(bound(false), overlapped_step_s(program, costs) * kRounded) << way.words();
    EXPECT_LE(bound(false), bound(true)) << way.words();
  });
}

// Steps that never drain, as the planner times them.
TEST(Bounds, AreNeverAboveTheSteadyStepOfAnAsynchronousSchedule) {
  int looked_at = 0, steady = 0;
  for_each_way([&](const Way& way, std::uint64_t seed) {
    if (!way.generator.asynchronous) return;
    const int stages = way.spec.stages, micros = way.spec.micros, first = 2 + 3 * stages / micros;
    const Costs costs = random_costs(stages, seed);
    const auto make = [&](int steps) { return way.program(steps); };
    ++looked_at;
    const auto state = steady_state(make, costs, first, 16 * first);
    if (!state) return;
    ++steady;
    const Schedule schedule = way.schedule(way.steps);
    const double bound = RowWork(schedule.rows, way.steps)
                             .least_step_s(schedule.placement, costs, way.recomputed, false);
    EXPECT_LE(bound, state->micro_s * micros * kRounded) << way.words();
  });
  EXPECT_GT(steady, looked_at / 2);
}

// One worker waits for nobody.
TEST(Bounds, OfOneWorkerAreTheStepItself) {
  for_each_way([](const Way& way, std::uint64_t seed) {
    if (way.spec.stages > 1 || way.generator.asynchronous) return;
    Costs costs = random_costs(1, seed);
    costs.reduce_s = {};
    const Schedule schedule = way.schedule(1);
    const double bound =
        RowWork(schedule.rows, 1).least_step_s(schedule.placement, costs, way.recomputed, true);
    EXPECT_NEAR(bound, makespan(simulate(way.program(1), costs)), 1e-9) << way.words();
  });
}

// Of rows that have no recompute actions yet; those that do have hold as much.
std::vector<double> bounds_of_peaks(const Way& way, const MemoryModel& memory) {
  std::vector<double> least =
      RowMemory(way.program(way.steps, false).rows).least_peaks(memory, way.recomputed);
  EXPECT_EQ(least, RowMemory(way.program(way.steps).rows).least_peaks(memory, way.recomputed));
  return least;
}

std::vector<double> simulated_peaks(const Way& way, const MemoryModel& memory, std::uint64_t seed) {
  const Program program = way.program(way.steps);
  const Timeline timeline = simulate(program, random_costs(way.spec.stages, seed));
  std::vector<double> peaks;
  for (const auto& levels : memory_levels(program, timeline, memory)) {
    peaks.push_back(peak_bytes(levels));
  }
  return peaks;
}

TEST(Bounds, OfMemoryAreNeverAboveWhatAnyWorkerHolds) {
  for_each_way([](const Way& way, std::uint64_t seed) {
    const MemoryModel memory = random_memory(way.schedule(way.steps).placement, seed);
    const std::vector<double> least = bounds_of_peaks(way, memory);
    const std::vector<double> peaks = simulated_peaks(way, memory, seed);
    ASSERT_EQ(least.size(), peaks.size());
    for (std::size_t worker = 0; worker < peaks.size(); ++worker) {
      EXPECT_LE(least[worker], peaks[worker] * kRounded) << way.words() << " P" << worker;
    }
  });
}

// Messages and what is brought back are all that the order does not say.
TEST(Bounds, OfMemoryAreWhatAWorkerHoldsWithoutMessagesAndRecompute) {
  for_each_way([](const Way& way, std::uint64_t seed) {
    if (way.recomputed.front() > 0) return;
    MemoryModel memory = random_memory(way.schedule(way.steps).placement, seed);
    for (StageMemory& stage : memory.stages) stage.activation = 0;
    const std::vector<double> least = bounds_of_peaks(way, memory);
    const std::vector<double> peaks = simulated_peaks(way, memory, seed);
    for (std::size_t worker = 0; worker < peaks.size(); ++worker) {
      EXPECT_NEAR(least[worker], peaks[worker], 1e-9) << way.words() << " P" << worker;
    }
  });
}

}  // namespace
}  // namespace chimera
