// Predicted against measured bytes of each worker, while it trains.
#include <gtest/gtest.h>

#include <algorithm>

#include "chimera/base/error.h"
#include "chimera/base/file.h"
#include "chimera/base/text.h"
#include "chimera/job/train_plan.h"
#include "chimera/runtime/launch.h"
#include "chimera/runtime/tags.h"
#include "chimera/schedule/csv_form.h"
#include "chimera/schedule/text_form.h"
#include "chimera/train/trainer.h"
#include "tests/equivalence/tiny.h"

namespace chimera::tiny {
namespace {

Config memory_config() {
  Config config = tiny_config();
  config.model = {.layers = 8, .hidden = 64, .heads = 4, .sequence = 64, .vocabulary = 101};
  config.model.dtype = DType::kFloat32;
  config.train.steps = 3;
  config.train.batch = 16;
  config.pipeline.stages = 4;
  config.pipeline.micro_batch = 2;
  return config;
}

struct Way {
  const char* schedule;
  const char* method = "direct";
  const char* recompute = "none";
  int pairs = 1;
  int hidden = 64, sequence = 64;
};

constexpr Way kWays[] = {{"gpipe"},
                         // Its first worker runs ahead of the others by as many messages as the
                         // machine's cores will have it, and keeps nothing else: a model whose
                         // messages are small beside its weights.
                         {"gpipe", "direct", "all", 1, 192, 16},
                         {"1f1b"},
                         {"1f1b", "direct", "1,0,1,0"},
                         {"gems"},
                         {"chimera"},
                         {"chimera", "direct", "none", 2},
                         {"chimera", "doubling"},
                         {"chimera", "doubling", "all"},
                         {"chimera", "halving"},
                         {"pipedream"},
                         {"pipedream-2bw"},
                         {"pipedream-2bw", "direct", "all"}};

// Within 5 % on each worker, even and uneven splits.
// Reported cases (docs/cases.md): M1, M4.
TEST(Memory, IsAsPredictedForEverySchedule) {
  for (const char* split : {"", "1,2,2,3", "3,2,2,1"}) {
    for (const Way& way : kWays) {
      Config config = memory_config();
      config.pipeline.schedule = way.schedule;
      config.pipeline.method = way.method;
      config.pipeline.recompute = way.recompute;
      config.pipeline.pairs = way.pairs;
      config.pipeline.split = split;
      config.model.hidden = way.hidden;
      config.model.sequence = way.sequence;
      const bool asynchronous = std::string(way.schedule).starts_with("pipedream");
      if (asynchronous) config.train.clip = 0, config.train.steps = 6;
      if (std::string(way.schedule) == "pipedream") config.train.batch = 2;
      const std::vector<double> predicted = make_plan(config, 101).peak_bytes;
      const std::vector<double> measured = measure_peaks(config);
      ASSERT_EQ(predicted.size(), measured.size());
      for (std::size_t rank = 0; rank < measured.size(); ++rank) {
        EXPECT_NEAR(predicted[rank], measured[rank], 0.05 * measured[rank])
            << way.schedule << " " << way.method << " " << way.recompute << " f=" << way.pairs
            << " split " << split << " rank " << rank;
      }
    }
  }
}

// The optimizer's step, which needs most where a parameter is large.
TEST(Memory, IsAsPredictedWhereTheVocabularyDominates) {
  for (const char* schedule : {"1f1b", "chimera", "pipedream-2bw"}) {
    Config config = memory_config();
    config.model.vocabulary = 5000;
    config.model.sequence = 16;
    config.train.clip = 0;
    config.pipeline.schedule = schedule;
    const std::vector<double> predicted = make_plan(config, 5000).peak_bytes;
    const std::vector<double> measured = measure_peaks(config);
    for (std::size_t rank = 0; rank < measured.size(); ++rank) {
      EXPECT_NEAR(predicted[rank], measured[rank], 0.05 * measured[rank]) << schedule << rank;
    }
  }
}

// Reported cases (docs/cases.md): M3.
TEST(Memory, LimitsAreForEachWorkerAndRecomputeFollowsThem) {
  Config config = memory_config();
  config.pipeline.schedule = "1f1b";
  const std::vector<double> free = make_plan(config, 101).peak_bytes;
  const auto limits = [&](double third) {
    const double enough = 1.01 * free[0] / 1e9;  // the first worker holds most
    return cat(enough, ",", enough, ",", third / 1e9, ",", enough);
  };
  config.pipeline.recompute = "auto";
  config.pipeline.memory = limits(free[0]);
  EXPECT_EQ(make_plan(config, 101).recomputed, (std::vector<int>{0, 0, 0, 0}));
  config.pipeline.memory = limits(0.9 * free[2]);
  const TrainPlan plan = make_plan(config, 101);
  EXPECT_GT(plan.recomputed[2], 0);
  EXPECT_EQ(plan.recomputed[0] + plan.recomputed[1] + plan.recomputed[3], 0);
  EXPECT_LE(plan.peak_bytes[2], 0.9 * free[2]);
  config.pipeline.memory = limits(1e5);
  for (const char* recompute : {"auto", "none", "all"}) {
    config.pipeline.recompute = recompute;
    expect_refused(config, "worker 2 would hold");
  }
}

// Doubling stashes twice as much: where that does not fit, it is refused until it may recompute.
TEST(Memory, DoublingIsRefusedWhereItsStashDoesNotFit) {
  Config config = memory_config();
  config.pipeline.schedule = "chimera";
  const double direct = make_plan(config, 101).peak_bytes[1];
  config.pipeline.method = "doubling";
  config.pipeline.memory = cat(1.05 * direct / 1e9);
  EXPECT_THROW((void)make_plan(config, 101), Error);
  config.pipeline.recompute = "auto";
  EXPECT_LE(make_plan(config, 101).peak_bytes[1], 1.05 * direct);
}

TEST(Memory, RefusesLimitsAndRecomputesThatAreNone) {
  const auto expect = [](auto change, const char* says) {
    Config config = memory_config();
    config.pipeline.schedule = "1f1b";
    change(config.pipeline);
    expect_refused(config, says);
  };
  expect([](PipelineConfig& p) { p.memory = "1,2"; }, "one number for each of the 4 workers");
  expect([](PipelineConfig& p) { p.memory = "0"; }, "above 0");
  expect([](PipelineConfig& p) { p.memory = "much"; }, "gigabytes");
  expect([](PipelineConfig& p) { p.recompute = "some"; }, "expected none, all, auto");
  expect([](PipelineConfig& p) { p.recompute = "1,1,1"; }, "for each of the 4 stages");
  expect([](PipelineConfig& p) { p.recompute = "3,0,0,0"; }, "(2,2,2,2)");
}

// Reported cases (docs/cases.md): P12.
TEST(ScheduleFile, TrainsAsTheScheduleItWasExportedFrom) {
  Config config = tiny_config();
  config.pipeline.stages = 4;
  const auto plan_of = [&](const char* name) {
    config.pipeline.schedule = name;
    return make_plan(config, 101);
  };
  const std::string folder = testing::TempDir();
  write_file(folder + "/one.csv", print_csv(plan_of("1f1b").program.source));
  write_file(folder + "/own.txt", print(plan_of("chimera").program.source));
  const auto run = [&](const std::string& schedule) {
    config.pipeline.schedule = schedule;
    return run_chimera(config);
  };
  expect_same_bits(run("file:" + folder + "/one.csv"), run("1f1b"), "csv");
  expect_same_bits(run("file:" + folder + "/own.txt"), run("chimera"), "text");
  const auto expect = [&](auto change, const char* says) {
    Config other = config;
    change(other);
    expect_refused(other, says);
  };
  config.pipeline.schedule = "file:" + folder + "/own.txt";
  expect([](Config& c) { c.train.batch = 7; }, "micro-batches");
  expect([](Config& c) { c.pipeline.stages = 2; }, "pipeline.stages is 2");
  // Recomputes of the file's own.
  config.pipeline.schedule = "chimera";
  config.pipeline.recompute = "all";
  write_file(folder + "/again.txt", print(make_plan(config, 101).program.source));
  config.pipeline.schedule = "file:" + folder + "/again.txt";
  expect([](Config&) {}, "recomputes (R) of its own");
  config.pipeline.recompute = "none";
  expect_same_bits(run_chimera(config), run("chimera"), "recompute from a file");
  // Steps elsewhere than the run's.
  config.pipeline.schedule = "pipedream";
  config.train.batch = 1;
  config.train.steps = 8;
  config.train.clip = 0;
  write_file(folder + "/dream.txt", print(make_plan(config, 101).program.source));
  config.pipeline.schedule = "file:" + folder + "/dream.txt";
  const Result dream = run_chimera(config);
  expect_same_bits(dream, run("pipedream"), "asynchronous from a file");
  expect(
      [&](Config& c) {
        c.pipeline.schedule = "file:" + folder + "/dream.txt";
        c.train.batch = 2;
        c.train.steps = 4;
      },
      "expected steps after the last of each");
  config.pipeline.schedule = "file:" + folder + "/own.txt";
  write_file(folder + "/wrong.csv", "0F0,0B0\n1B0,1F0\n");
  expect(
      [&](Config& c) {
        c.pipeline.schedule = "file:" + folder + "/wrong.csv";
        c.pipeline.stages = 2;
        c.train.batch = 1;
      },
      "'chimera verify' shows where");
}

// How many computations of their own workers all-reduces overlap, in one step.
std::ptrdiff_t overlaps(const char* policy) {
  Config config = memory_config();
  config.pipeline.schedule = "chimera";
  config.pipeline.width = 2;
  config.pipeline.reduce = policy;
  const TinyDataset dataset(101, config.model.sequence);
  const TrainPlan plan = make_plan(config, 101);
  Timeline timeline;
  launch_local(plan.ranks(), {.limit_s = 60, .describe = describe_tag}, [&](Transport& transport) {
    Trainer trainer(plan, dataset, transport);
    for (StepReport& report : trainer.step()) {
      if (transport.rank() == 0) timeline = std::move(report.timeline);
    }
  });
  std::ptrdiff_t count = 0;
  for (std::size_t rank = 0; rank < timeline.reductions.size(); ++rank) {
    EXPECT_EQ(timeline.reductions[rank].size(), 2U);
    for (const Interval& reduction : timeline.reductions[rank]) {
      count += std::count_if(
          timeline.rows[rank].begin(), timeline.rows[rank].end(), [&](const Interval& other) {
            return is_compute(other.action.op) && other.start_s < reduction.end_s &&
                   other.end_s > reduction.start_s;
          });
    }
  }
  return count;
}

// Reported cases (docs/cases.md): M9.
TEST(Reduction, OverlapsOtherWorkOfTheWorkerUnlessAtTheEnd) {
  EXPECT_GT(overlaps("eager-opt"), 0);
  EXPECT_EQ(overlaps("at-end"), 0);
}

}  // namespace
}  // namespace chimera::tiny
