#include "chimera/simulate/memory.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "chimera/generate/generate.h"
#include "chimera/schedule/lower.h"
#include "chimera/schedule/recompute.h"
#include "chimera/schedule/verify.h"
#include "chimera/simulate/simulate.h"

namespace chimera {
namespace {

MemoryModel even_model(int stages, int workers, const StageMemory& stage) {
  const auto each = static_cast<std::size_t>(workers);
  MemoryModel model;
  model.stages.assign(static_cast<std::size_t>(stages), stage);
  model.weights.assign(each, 0);
  model.gradients = model.optimizer = model.step_work = model.weights;
  return model;
}

std::vector<double> peaks(const Program& program, const MemoryModel& model) {
  const Timeline timeline = simulate(program, Costs::uniform(program.source.stages(), 1, 2));
  std::vector<double> result;
  for (const auto& levels : memory_levels(program, timeline, model)) {
    EXPECT_TRUE(std::is_sorted(levels.begin(), levels.end(),
                               [](const Level& a, const Level& b) { return a.time_s < b.time_s; }));
    EXPECT_DOUBLE_EQ(levels.back().bytes, model.weights[result.size()]);  // all else is freed
    result.push_back(peak_bytes(levels));
  }
  return result;
}

// With stashes of one byte and nothing else the peak is verify's count.
TEST(Memory, CountsWhatVerifyCounts) {
  for (const Generator& generator : generators()) {
    for (const bool again : {false, true}) {
      Spec spec{.stages = 4, .micros = 6};
      if (generator.asynchronous) spec.steps = 3;
      const Schedule schedule =
          with_recompute(generate(generator.name, spec), std::vector<bool>(4, again));
      const Program program = lower(schedule);
      const Verdict verdict = verify(program);
      const auto stash = peaks(program, even_model(4, 4, {.stash = 1}));
      for (std::size_t worker = 0; worker < 4; ++worker) {
        EXPECT_EQ(stash[worker], verdict.peak_stash[worker]) << generator.name << worker;
      }
      MemoryModel model = even_model(4, 4, {.weights = 1});
      for (int worker = 0; worker < 4; ++worker) {
        model.weights[static_cast<std::size_t>(worker)] =
            static_cast<double>(schedule.placement.stages_of(worker).size());
      }
      const auto versions = peaks(program, model);
      for (std::size_t worker = 0; worker < 4; ++worker) {
        EXPECT_EQ(versions[worker], verdict.peak_versions[worker]) << generator.name << worker;
      }
    }
  }
}

TEST(Memory, ARecomputedForwardKeepsItsInputUntilTheRecompute) {
  const Program program =
      lower(with_recompute(generate("gpipe", {.stages = 2, .micros = 3}), {true, true}));
  const auto peak = peaks(program, even_model(2, 2, {.stash = 10, .kept = 1}));
  EXPECT_EQ(peak[0], 12);  // two inputs and the activations of the third
  EXPECT_EQ(peak[1], 12);
}

TEST(Memory, AMessageIsItsMakersUntilItIsTaken) {
  // The second worker is busy for long: with 1F1B the first waits, with GPipe it goes on.
  Costs costs = Costs::uniform(2, 1, 1);
  costs.forward_s[1] = costs.backward_s[1] = 9;
  const auto peak_of_first = [&](const char* name) {
    const Program program = lower(generate(name, {.stages = 2, .micros = 4}));
    const MemoryModel model = even_model(2, 2, {.activation = 1});
    return peak_bytes(memory_levels(program, simulate(program, costs), model)[0]);
  };
  EXPECT_EQ(peak_of_first("1f1b"), 1);
  EXPECT_EQ(peak_of_first("gpipe"), 3);
}

}  // namespace
}  // namespace chimera
