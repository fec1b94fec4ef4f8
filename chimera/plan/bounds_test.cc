#include "chimera/plan/bounds.h"

#include <gtest/gtest.h>

#include "chimera/base/random.h"
#include "chimera/generate/generate.h"
#include "chimera/schedule/lower.h"
#include "chimera/schedule/recompute.h"
#include "chimera/simulate/simulate.h"
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

// On every schedule and uneven stages, with recompute or without: no step is shorter than the
// bound, and no worker holds less.
TEST(Bounds, AreNeverAboveWhatTheSimulatorSays) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const RandomStream stream(seed, 3, 4);
    for (const char* name : {"gpipe", "1f1b", "gems", "chimera"}) {
      const int stages = 2 * (1 + static_cast<int>(seed % 3));
      const int micros = 1 + static_cast<int>(seed % 7);
      Costs costs;
      costs.forward_s = draw(stream, stages, 0, 1);
      costs.backward_s = draw(stream, stages, 100, 2);
      costs.recompute_s = draw(stream, stages, 200, 1);
      costs.stage_step_s = draw(stream, stages, 300, seed % 2 == 0 ? 5 : 0.5);
      costs.reduce_s = draw(stream, stages, 400, 1);
      costs.link.latency_s = 0.05;
      const std::vector<int> recomputed(static_cast<std::size_t>(stages), seed % 3 == 0 ? 1 : 0);
      const std::vector<bool> again(recomputed.begin(), recomputed.end());
      const Schedule schedule = generate(name, {.stages = stages, .micros = micros});
      const Program program = lower(with_recompute(schedule, again));
      const RowWork work(schedule.rows, 1);
      const Timeline timeline = simulate(program, costs);
      const auto bound = [&](bool barrier) {
        return work.least_step_s(schedule.placement, costs, recomputed, barrier);
      };
      EXPECT_LE(bound(true), makespan(timeline) * (1 + 1e-9)) << name << ", seed " << seed;
      EXPECT_LE(bound(false), overlapped_step_s(program, costs) * (1 + 1e-9))
          << name << " " << seed;
    }
  }
}

TEST(Bounds, OfMemoryAreNeverAboveTheLevelsOfATimeline) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const RandomStream stream(seed, 5, 6);
    for (const char* name : {"gpipe", "1f1b", "gems", "chimera"}) {
      const int stages = 2 * (1 + static_cast<int>(seed % 3));
      MemoryModel memory;
      for (int stage = 0; stage < stages; ++stage) {
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
      const auto workers = static_cast<std::size_t>(stages);
      memory.weights = draw(stream, stages, 500, 1);
      memory.gradients = memory.optimizer = memory.step_work = memory.weights;
      const std::vector<int> recomputed(workers, seed % 2 == 0 ? 1 : 0);
      const std::vector<bool> again(recomputed.begin(), recomputed.end());
      const Schedule schedule =
          generate(name, {.stages = stages, .micros = 1 + static_cast<int>(seed % 9)});
      const Program program = lower(with_recompute(schedule, again));
      Costs costs = Costs::uniform(stages, 1, 2);
      costs.link.latency_s = 0.1;
      const auto levels = memory_levels(program, simulate(program, costs), memory);
      const std::vector<double> least = RowMemory(schedule.rows).least_peaks(memory, recomputed);
      for (std::size_t worker = 0; worker < workers; ++worker) {
        EXPECT_LE(least[worker], peak_bytes(levels[worker]) + 1e-9)
            << name << ", seed " << seed << ", worker " << worker;
      }
    }
  }
}

}  // namespace
}  // namespace chimera
