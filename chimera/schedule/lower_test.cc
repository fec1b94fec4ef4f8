#include "chimera/schedule/lower.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/generate/generate.h"
#include "chimera/schedule/text_form.h"

namespace chimera {
namespace {

std::string words(const Row& row) {
  std::vector<std::string> result;
  for (const Action& action : row) result.push_back(to_string(action));
  return join(result, " ");
}

TEST(Lower, PutsMessagesAroundComputations) {
  const Program program = lower(generate("1f1b", {.stages = 3, .micros = 1}));
  EXPECT_EQ(words(program.rows[0]), "0F0 0SEND_F0 0RECV_B0 0B0 0REDUCE 0WAIT STEP");
  EXPECT_EQ(words(program.rows[1]),
            "1RECV_F0 1F0 1SEND_F0 1RECV_B0 1B0 1SEND_B0 1REDUCE 1WAIT STEP");
  EXPECT_EQ(words(program.rows[2]), "2RECV_F0 2F0 2B0 2SEND_B0 2REDUCE 2WAIT STEP");
}

TEST(Lower, SendsOneMessageForEachMicroBatchOfASpan) {
  const Program program =
      lower(parse("name: s\nstages: 2\nworkers: 2\npipes: 1\nmicros: 2\n"
                  "placement: 0,1\n0F0+2,0B0,0B1\n1F0+2,1I0,1I1,1W0,1W1\n",
                  "s"));
  EXPECT_EQ(words(program.rows[0]),
            "0F0+2 0SEND_F0 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1 0REDUCE 0WAIT STEP");
  EXPECT_EQ(words(program.rows[1]),
            "1RECV_F0 1RECV_F1 1F0+2 1I0 1SEND_B0 1I1 1SEND_B1 1W0 1W1 1REDUCE 1WAIT STEP");
}

TEST(Lower, SendsNothingBetweenStagesOfOneWorker) {
  const Program program =
      lower(parse("name: fold\nstages: 2\nworkers: 1\npipes: 1\nmicros: 1\n"
                  "placement: 0,0\n0F0,1F0,1B0,0B0\n",
                  "fold"));
  EXPECT_EQ(words(program.rows[0]), "0F0 1F0 1B0 0B0 1REDUCE 0REDUCE 1WAIT 0WAIT STEP");
}

// Whether the all-reduce of a stage begins before the worker's last computation.
bool begins_early(const Row& row, int stage) {
  const auto begin = std::find_if(row.begin(), row.end(), [&](const Action& action) {
    return action.op == Op::kReduceBegin && action.stage == stage;
  });
  return std::any_of(begin, row.end(), [](const Action& a) { return is_compute(a.op); });
}

// The authors' rule for f = 1: the larger stage of a worker is eager iff its id is above D/2, the
// smaller one never.
TEST(Lower, EagerOptIsTheAuthorsRuleForOnePair) {
  for (int d = 2; d <= 32; d += 2) {
    for (const int n : {d, 2 * d, 3 * d}) {
      const Program program = lower(generate("chimera", {.stages = d, .micros = n}));
      for (int worker = 0; worker < d; ++worker) {
        const Row& row = program.rows[static_cast<std::size_t>(worker)];
        const int smaller = std::min(worker, d - 1 - worker), larger = d - 1 - smaller;
        EXPECT_EQ(begins_early(row, larger), larger > d / 2) << d << " " << n << " P" << worker;
        EXPECT_FALSE(begins_early(row, smaller)) << d << " " << n << " P" << worker;
      }
    }
  }
}

TEST(Lower, EagerBeginsRightAfterTheLastContributionAndAtEndNever) {
  const Schedule schedule = generate("chimera", {.stages = 4, .micros = 4});
  const Program eager = lower(schedule, ReducePolicy::kEager);
  const Program at_end = lower(schedule, ReducePolicy::kAtEnd);
  for (std::size_t worker = 0; worker < 4; ++worker) {
    const int larger = std::max(static_cast<int>(worker), 3 - static_cast<int>(worker));
    EXPECT_TRUE(begins_early(eager.rows[worker], larger));
    EXPECT_FALSE(begins_early(at_end.rows[worker], larger));
  }
}

TEST(Lower, ReducesStagesThatNoMicroBatchUses) {
  const Program program = lower(generate("chimera", {.stages = 2, .micros = 1}));
  for (const Row& row : program.rows) {
    for (int stage = 0; stage < 2; ++stage) {
      EXPECT_EQ(
          std::count(row.begin(), row.end(),
                     Action{.op = Op::kReduceWait, .stage = static_cast<std::int16_t>(stage)}),
          1);
    }
  }
}

TEST(ReducePolicy, IsNamed) {
  EXPECT_EQ(reduce_policy("at-end"), ReducePolicy::kAtEnd);
  EXPECT_EQ(reduce_policy("eager-opt"), ReducePolicy::kEagerOpt);
  EXPECT_THROW((void)reduce_policy("eagr"), Error);
}

}  // namespace
}  // namespace chimera
