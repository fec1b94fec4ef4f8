// Asynchronous schedules train by their published rules, which one device follows here as they are
// written: gradients with delayed weights, one stage's delay or another's.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <atomic>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/job/train_plan.h"
#include "chimera/runtime/launch.h"
#include "chimera/runtime/tags.h"
#include "chimera/train/trainer.h"
#include "tests/equivalence/tiny.h"

namespace chimera::tiny {
namespace {

Config asynchronous(const char* schedule, int stages, int width) {
  Config config = tiny_config();
  config.train.clip = 0;
  config.pipeline.schedule = schedule;
  config.pipeline.stages = stages;
  config.pipeline.width = width;
  return config;
}

// PipeDream (SOSP 2019): w(t+1) = w(t) - lr grad f(w_1(t-n+1), w_2(t-n+2), ..., w_n(t)).
TEST(Asynchronous, PipeDreamDelaysEachStageByItsDistanceFromTheLast) {
  for (const int stages : {1, 2, 4, 8}) {
    for (const int width : {1, 2}) {
      Config config = asynchronous("pipedream", stages, width);
      config.model.dropout = 0.1;
      config.train.batch = 2 * width;
      config.pipeline.micro_batch = 2;
      std::vector<int> delay;
      for (int stage = 0; stage < stages; ++stage) delay.push_back(stages - 1 - stage);
      const Result oracle = run_delayed(config, make_plan(config, 101).split, delay);
      for (const char* recompute : {"none", "all"}) {
        config.pipeline.recompute = recompute;
        expect_equal(run_chimera(config), oracle,
                     cat("pipedream D=", stages, " W=", width, " recompute=", recompute));
      }
    }
  }
}

// PipeDream-2BW (ICML 2021): W(t+1) = W(t) - lr grad f(W(t-1)), on all stages alike.
TEST(Asynchronous, PipeDream2BWDelaysAllStagesByOneStep) {
  for (const int stages : {1, 2, 4}) {
    for (const int micros : {1, 2, 4, 7}) {
      for (const int width : {1, 3}) {
        Config config = asynchronous("pipedream-2bw", stages, width);
        config.train.batch = micros * width;
        config.pipeline.recompute = micros == 4 ? "all" : "none";
        const TrainPlan plan = make_plan(config, 101);
        // On one stage nothing is in flight at a step, yet the rule is the same.
        const std::vector<int> delay(static_cast<std::size_t>(stages), 1);
        expect_equal(run_chimera(config), run_delayed(config, plan.split, delay),
                     cat("pipedream-2bw D=", stages, " N=", micros, " W=", width));
      }
    }
  }
}

TEST(Asynchronous, TwoRunsAreTheSameBitForBit) {
  Config config = asynchronous("pipedream-2bw", 4, 2);
  config.train.batch = 8;
  config.model.dtype = DType::kFloat32;
  expect_same_bits(run_chimera(config), run_chimera(config), "2bw");
  config.pipeline.schedule = "pipedream";
  config.train.batch = 2;
  expect_same_bits(run_chimera(config), run_chimera(config), "pipedream");
}

// One rank asks after its third step; all end after the same step, with what is under way done.
TEST(Asynchronous, StopsAllRanksAfterTheSameStep) {
  Config config = asynchronous("pipedream", 4, 1);
  config.train.batch = 1;
  config.train.steps = 40;
  const TinyDataset dataset(101, config.model.sequence);
  const TrainPlan plan = make_plan(config, 101);
  std::vector<std::int64_t> last(4, -1);
  launch_local(4, {.limit_s = 60, .describe = describe_tag}, [&](Transport& transport) {
    at::set_num_threads(1);
    Trainer trainer(plan, dataset, transport);
    std::int64_t& step = last[static_cast<std::size_t>(transport.rank())];
    while (!trainer.done()) {
      const auto wants_stop = [&] { return transport.rank() == 1 && step >= 2; };
      for (const StepReport& report : trainer.step(wants_stop)) step = report.step;
    }
    (void)trainer.gather_weights();  // no message is left over
    (void)trainer.evaluate(0);
  });
  EXPECT_EQ(last, std::vector<std::int64_t>(4, last[0]));
  EXPECT_GT(last[0], 2);
  EXPECT_LT(last[0], 20);
}

TEST(Asynchronous, RefusesWhatNeedsAnEndOfAStep) {
  Config config = asynchronous("pipedream-2bw", 4, 1);
  config.train.clip = 1;
  expect_refused(config, "set train.clip=0");
  config.train.clip = 0;
  config.model.tied = true;
  expect_refused(config, "model.tied=false");
  config.model.tied = false;
  config.pipeline.schedule = "pipedream";
  config.train.batch = 4;
  expect_refused(config, "use pipedream-2bw");
}

}  // namespace
}  // namespace chimera::tiny
