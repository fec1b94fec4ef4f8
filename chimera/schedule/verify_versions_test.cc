// What verify says of weights that change while micro-batches are under way: versions, rounds of
// reduction, steps. verify_test.cc breaks such programs too, action by action.
#include <gtest/gtest.h>

#include "chimera/generate/generate.h"
#include "chimera/schedule/recompute.h"
#include "chimera/schedule/testing.h"

namespace chimera {
namespace {

std::vector<Program> asynchronous_programs() {
  std::vector<Program> programs;
  for (const char* name : {"pipedream", "pipedream-2bw"}) {
    for (int d = 1; d <= 4; ++d) {
      for (int n = 1; n <= 4; ++n) {
        const Schedule schedule = generate(name, {.stages = d, .micros = n, .steps = 3});
        const std::vector<bool> stages(static_cast<std::size_t>(d), d % 2 == 1);
        programs.push_back(lower(with_recompute(schedule, stages), ReducePolicy::kAtEnd));
        programs.push_back(lower(schedule, ReducePolicy::kEager));
      }
    }
  }
  return programs;
}

// Calls visit(program, worker, position) for every action of those programs that is one of `ops`.
template <class Visit>
void for_each_of(std::initializer_list<Op> ops, Visit visit) {
  for (const Program& program : asynchronous_programs()) {
    for (std::size_t worker = 0; worker < program.rows.size(); ++worker) {
      for (std::size_t i = 0; i < program.rows[worker].size(); ++i) {
        const Op op = program.rows[worker][i].op;
        if (std::find(ops.begin(), ops.end(), op) != ops.end()) visit(program, worker, i);
      }
    }
  }
}

void move_action(Row& row, std::size_t from, std::size_t to) {
  const Action action = row[from];
  row.erase(row.begin() + static_cast<std::ptrdiff_t>(from));
  row.insert(row.begin() + static_cast<std::ptrdiff_t>(to), action);
}

// The position of the last action before `end` that `is` holds for, or `end`.
template <class Predicate>
std::size_t last_before(const Row& row, std::size_t end, Predicate is) {
  for (std::size_t i = end; i-- > 0;) {
    if (is(row[i])) return i;
  }
  return end;
}

std::string text(const Verdict& verdict) {
  std::string all;
  for (const Violation& violation : verdict.violations) {
    all += cat(rule_name(violation.rule), ": ", violation.what, "\n");
  }
  return all;
}

TEST(VerifyVersions, CatchesABackwardThatReadsAnotherVersionThanItsForward) {
  int broken = 0;
  for_each_of({Op::kBackward, Op::kRecompute}, [&](Program program, std::size_t w, std::size_t i) {
    Action& action = program.rows[w][i];
    const std::int16_t age = action.age;
    for (const int other : {age - 1, age + 1}) {
      if (other < 0) continue;
      action.age = static_cast<std::int16_t>(other);
      EXPECT_TRUE(has(verify(program), Rule::kVersion, w)) << to_string(action);
      ++broken;
    }
  });
  EXPECT_GT(broken, 300);
}

TEST(VerifyVersions, NamesBothVersions) {
  const Verdict verdict = verdict_on_one_worker("0F0,0F1,0B0,0S0,0B1,0S1", 2);
  EXPECT_EQ(text(verdict),
            "version: 0B1 reads version 1 of the weights, but its forward read version 0\n");
  EXPECT_TRUE(verdict_on_one_worker("0F0,0F1,0B0,0S0,0B1~1,0S1", 2).ok());
}

TEST(VerifyVersions, CatchesAVersionFreedTooEarly) {
  int broken = 0;
  for_each_of({Op::kFreeWeights}, [&](Program program, std::size_t w, std::size_t i) {
    Row& row = program.rows[w];
    const std::size_t reader =
        last_before(row, i, [](const Action& a) { return is_compute(a.op); });
    ASSERT_EQ(row[reader].age, row[i].age);
    move_action(row, i, reader);
    const Verdict verdict = verify(program);
    EXPECT_TRUE(has(verdict, Rule::kVersion, w)) << describe(program, verdict);
    ++broken;
  });
  EXPECT_GT(broken, 100);
}

TEST(VerifyVersions, CatchesAVersionNeverFreedOrNeverKeptOrKeptTwice) {
  for_each_of({Op::kFreeWeights, Op::kStashWeights},
              [&](Program program, std::size_t w, std::size_t i) {
                const Program good = program;
                Row& row = program.rows[w];
                row.erase(row.begin() + static_cast<std::ptrdiff_t>(i));
                EXPECT_TRUE(has(verify(program), Rule::kVersion, w));
                program = good;
                program.rows[w].insert(program.rows[w].begin(), good.rows[w][i]);
                EXPECT_TRUE(has(verify(program), Rule::kVersion, w));
              });
}

TEST(VerifyVersions, CatchesAVersionThatNeverWas) {
  const Verdict verdict = verdict_on_one_worker("0F0~1,0B0~1,0S0", 1);
  EXPECT_TRUE(has(verdict, Rule::kVersion, 0)) << text(verdict);
}

// In every round, not the first or last alone.
TEST(VerifyVersions, CatchesAReductionBeforeTheLastContributionOfItsRound) {
  int broken = 0;
  for_each_of({Op::kReduceBegin}, [&](Program program, std::size_t w, std::size_t i) {
    Row& row = program.rows[w];
    move_action(row, i, last_before(row, i, [](const Action& a) { return contributes(a.op); }));
    const Verdict verdict = verify(program);
    EXPECT_TRUE(has(verdict, Rule::kReduce, w)) << describe(program, verdict);
    ++broken;
  });
  EXPECT_GT(broken, 100);
}

TEST(VerifyVersions, CatchesAStepWithOtherMicroBatchesThanItSays) {
  for_each_of({Op::kStep}, [&](Program program, std::size_t w, std::size_t i) {
    Action& step = program.rows[w][i];
    --step.micro;  // what it does not say is in its gradient
    EXPECT_TRUE(has(verify(program), step.micro < 0 ? Rule::kShape : Rule::kStep, w));
    step.micro += 2;  // what it says is not there yet
    const bool is_last = step.micro == program.source.micros;
    EXPECT_TRUE(has(verify(program), is_last ? Rule::kShape : Rule::kReduce, w));
  });
}

TEST(VerifyVersions, CatchesAStepBeforeItsContributionsOrOutOfTurn) {
  const auto verdict_of = [](const char* row) { return verdict_on_one_worker(row, 2); };
  EXPECT_TRUE(verdict_of("0F0,0B0,0S0,0F1,0B1,0S1").ok());
  EXPECT_TRUE(verdict_of("0F0,0B0,0F1,0B1,0S1").ok());
  EXPECT_TRUE(has(verdict_of("0F0,0S0,0B0,0F1,0B1,0S1"), Rule::kReduce, 0));
  EXPECT_TRUE(has(verdict_of("0F0,0B0,0F1,0B1,0S0"), Rule::kStep, 0));
  EXPECT_TRUE(has(verdict_of("0F0,0B0,0F1,0B1,0S1,0S0"), Rule::kStep, 0));
  EXPECT_TRUE(has(verdict_of("0F0,0B0,0F1,0B1,0S1,0S1"), Rule::kStep, 0));
  EXPECT_TRUE(has(verdict_of("0F0,0B0,0S0,0F1,0B1"), Rule::kStep, 0));
}

// The step of all stages has no place in a row that says its steps.
TEST(VerifyVersions, CatchesAStepOfAllStagesBesideStepsOfOne) {
  Program program = lower(generate("pipedream", {.stages = 2, .micros = 2}));
  program.rows[0].push_back({.op = Op::kStep, .stage = kAllStages});
  EXPECT_FALSE(verify(program).ok());
}

// Two pipes over two workers: each worker holds both stages.
Verdict verdict_on_two_pipes(const char* rows) {
  return verify(lower(parse(cat("name: two\nstages: 2\nworkers: 2\npipes: 2\nmicros: 4\n"
                                "placement: 0,1;1,0\n",
                                rows),
                            "two")));
}

TEST(VerifyVersions, CatchesASecondKindOfStepAndAReductionWithoutOne) {
  const Action begin{.op = Op::kReduceBegin}, wait{.op = Op::kReduceWait};
  const Action all{.op = Op::kStep, .stage = kAllStages}, one{.op = Op::kStep, .micro = 1};
  const auto verdict_with = [&](const char* row, const std::vector<Action>& more, bool at_end) {
    Program program = lower(parse(cat("name: one\nstages: 1\nworkers: 1\npipes: 1\nmicros: 2\n"
                                      "placement: 0\n",
                                      row, "\n"),
                                  "one"));
    Row& actions = program.rows[0];
    // Before the last three actions, which are REDUCE WAIT STEP or S, or after them.
    actions.insert(actions.end() - (at_end ? 0 : 3), more.begin(), more.end());
    return verify(program);
  };
  EXPECT_TRUE(verdict_with("0F0,0B0,0F1,0B1", {}, true).ok());
  EXPECT_TRUE(has(verdict_with("0F0,0B0,0F1,0B1", {begin, wait, one}, false), Rule::kStep, 0));
  EXPECT_TRUE(has(verdict_with("0F0,0B0,0F1,0B1,0S1", {begin, wait, all}, true), Rule::kStep, 0));
  EXPECT_TRUE(has(verdict_with("0F0,0B0,0F1,0B1,0S1", {begin}, true), Rule::kReduce, 0));
  EXPECT_TRUE(has(verdict_with("0F0,0B0,0F1,0B1,0S1", {begin, wait}, true), Rule::kReduce, 0));
}

// Figure 7 (d) needs a channel that holds a message, (c) none.
TEST(VerifyVersions, CatchesAProgramThatNeedsMoreRoomThanTheTransportHas) {
  Spec spec{.stages = 4, .micros = 8, .method = Method::kDoubling};
  const Program split = lower(generate("chimera", spec));
  EXPECT_TRUE(verify(split).ok());
  EXPECT_TRUE(verify(split, 1).ok());
  const Verdict verdict = verify(split, 0);
  EXPECT_TRUE(has(verdict, Rule::kCapacity));
  EXPECT_TRUE(is_send(verdict.violations.front().action.op));
  spec.fused = true;
  EXPECT_TRUE(verify(lower(generate("chimera", spec)), 0).ok());
}

TEST(VerifyVersions, AllowsHoldersThatStepAlike) {
  const Verdict verdict = verdict_on_two_pipes(
      "0F0,1F1@1,1B1@1,0B0,0S1,1S1,0F2,1F3@1,1B3@1,0B2,0S3,1S3\n"
      "0F1@1,1F0,1B0,0B1@1,0S1,1S1,0F3@1,1F2,1B2,0B3@1,0S3,1S3\n");
  EXPECT_TRUE(verdict.ok()) << text(verdict);
}

TEST(VerifyVersions, CatchesHoldersThatStepDifferently) {
  // The second worker steps stage 0 once, with all.
  const Verdict fewer = verdict_on_two_pipes(
      "0F0,1F1@1,1B1@1,0B0,0S1,1S1,0F2,1F3@1,1B3@1,0B2,0S3,1S3\n"
      "0F1@1,1F0,1B0,0B1@1,1S1,0F3@1,1F2,1B2,0B3@1,0S3,1S3\n");
  EXPECT_TRUE(has(fewer, Rule::kStep, 1)) << text(fewer);
  EXPECT_NE(
      text(fewer).find("stage 0 steps after micro-batches 3 here, but on worker 0 after 1, 3"),
      std::string::npos)
      << text(fewer);
  // It takes its own micro-batch into the first step, but not that of the other worker.
  const Verdict other = verdict_on_two_pipes(
      "0F0,1F1@1,1B1@1,0B0,0S0,1S1,0F2,1F3@1,1B3@1,0B2,0S3,1S3\n"
      "0F1@1,1F0,1B0,0B1@1,0S1,1S1,0F3@1,1F2,1B2,0B3@1,0S3,1S3\n");
  EXPECT_TRUE(has(other, Rule::kStep, 1)) << text(other);
}

// Each worker waits in a step for a gradient that the other reduces after the step that it waits
// in.
TEST(VerifyVersions, CatchesStepsThatWaitForEachOther) {
  Program program =
      lower(parse("name: two\nstages: 2\nworkers: 2\npipes: 2\nmicros: 2\nplacement: 0,1;1,0\n"
                  "0F0,1F1@1,1B1@1,0B0,0S1,1S1\n0F1@1,1F0,1B0,0B1@1,1S1,0S1\n",
                  "two"),
            ReducePolicy::kEager);
  EXPECT_TRUE(verify(program).ok());
  program = lower(program.source, ReducePolicy::kAtEnd);
  EXPECT_TRUE(has(verify(program), Rule::kProgress));
}

TEST(VerifyVersions, CountsTheVersionsOfEachWorker) {
  const auto versions = [](const char* name, int micros, int steps) {
    return verify(lower(generate(name, {.stages = 4, .micros = micros, .steps = steps})))
        .peak_versions;
  };
  EXPECT_EQ(versions("pipedream", 8, 1), (std::vector<int>{4, 3, 2, 1}));
  EXPECT_EQ(versions("pipedream-2bw", 4, 3), (std::vector<int>{2, 2, 2, 2}));
  EXPECT_EQ(versions("pipedream-2bw", 4, 1), (std::vector<int>{1, 1, 1, 1}));
}

}  // namespace
}  // namespace chimera
