// Processes give what threads give, bit for bit: every schedule, depth, width and pair of pipes
// that twelve processes hold. What threads give is compared with one device in equivalence_test.cc,
// and here again. All processes run each test; rank 0 compares.
// Reported cases (docs/cases.md): H6, H12, H16, S6, S7.
#include <gtest/gtest.h>

#include <array>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/runtime/tags.h"
#include "chimera/transport/checked.h"
#include "chimera/transport/mpi/testing.h"
#include "tests/equivalence/tiny.h"

namespace chimera::tiny {
namespace {

struct Way {
  const char* schedule;
  int pairs = 1;
  const char* method = "direct";
  const char* recompute = "none";
};

constexpr Way kWays[] = {{"gpipe"},
                         {"1f1b"},
                         {"gems"},
                         {"chimera"},
                         {"chimera", 2},
                         {"chimera", 1, "doubling", "all"},
                         {"chimera", 1, "halving"},
                         {"pipedream"},
                         {"pipedream-2bw"}};

std::string describe(const Config& config) {
  const PipelineConfig& p = config.pipeline;
  return cat(p.schedule, " D=", p.stages, " W=", p.width, " f=", p.pairs, " method=", p.method,
             " recompute=", p.recompute, " tied=", config.model.tied);
}

Config configured(const Way& way, int stages, int width) {
  Config config = tiny_config();
  config.train.steps = 4;
  config.train.batch = 4 * width + 1;  // does not divide
  config.pipeline.schedule = way.schedule;
  config.pipeline.stages = stages;
  config.pipeline.width = width;
  config.pipeline.pairs = way.pairs;
  config.pipeline.method = way.method;
  config.pipeline.recompute = way.recompute;
  config.pipeline.bucket_mb = 0.004;  // several to a stage
  if (std::string_view(way.schedule).starts_with("pipedream")) config.train.clip = 0;
  if (std::string_view(way.schedule) == "pipedream") config.train.batch = width;
  return config;
}

// A world of the first processes; the others have nothing to do with it.
void expect_same_as_threads(const Config& config, const Lengths& lengths = {}) {
  const int ranks = config.pipeline.stages * config.pipeline.width;
  MpiWorld world(mpi_process(), {.ranks = ranks});
  if (mpi_process().rank() >= ranks) return;
  const auto transport = checked(world.transport(), {.limit_s = 60, .describe = describe_tag});
  try {
    const Result result = run_rank(config, *transport, lengths);
    if (transport->rank() != 0) return;
    expect_same_bits(result, run_chimera(config, lengths), describe(config));
    const bool synchronous = !std::string_view(config.pipeline.schedule).starts_with("pipedream");
    if (synchronous) expect_equal(result, run_one_device(config, lengths), describe(config));
  } catch (const std::exception& error) {
    ADD_FAILURE() << describe(config) << ": " << error.what();
    transport->abort(error.what());
  }
}

TEST(MpiEquivalence, EveryScheduleGivesWhatThreadsGive) {
  for (const int stages : {2, 4}) {
    for (const int width : {1, 2, 3}) {
      for (const Way& way : kWays) {
        if (way.pairs * 2 > stages) continue;
        expect_same_as_threads(configured(way, stages, width));
      }
    }
  }
}

// Reported cases (docs/cases.md): G22, its tied part.
TEST(MpiEquivalence, ATiedHeadIsSummedOverAllItsReplicas) {
  for (const int width : {1, 3}) {
    Config config = configured({"chimera"}, 4, width);
    config.model.tied = true;
    expect_same_as_threads(config);
  }
}

TEST(MpiEquivalence, SequencesMayChangeTheirLength) {
  Config config = configured({"chimera"}, 4, 2);
  config.model.sequence = 24;
  config.train.batch = 8;
  expect_same_as_threads(config, [](std::int64_t s) { return std::array{16, 24, 8}[s / 8 % 3]; });
  expect_same_as_threads(config, [](std::int64_t s) { return std::array{7, 8}[s / 4 % 2]; });
}

}  // namespace
}  // namespace chimera::tiny
