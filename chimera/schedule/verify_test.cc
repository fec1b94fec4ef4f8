#include "chimera/schedule/verify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "chimera/base/text.h"
#include "chimera/generate/generate.h"
#include "chimera/schedule/lower.h"
#include "chimera/schedule/recompute.h"
#include "chimera/schedule/testing.h"
#include "chimera/schedule/text_form.h"

namespace chimera {
namespace {

struct Good {
  const char* name;
  Spec spec;
  bool recomputes = false;
};

const Good kGood[] = {
    {"gpipe", {.stages = 3, .micros = 4}},
    {"gpipe", {.stages = 3, .micros = 2}, true},
    {"1f1b", {.stages = 4, .micros = 6}},
    {"1f1b", {.stages = 2, .micros = 1}},
    {"1f1b", {.stages = 3, .micros = 4}, true},
    {"gems", {.stages = 3, .micros = 4}},
    {"gems", {.stages = 4, .micros = 3}, true},
    {"chimera", {.stages = 2, .micros = 3}},
    {"chimera", {.stages = 4, .micros = 4}},
    {"chimera", {.stages = 4, .micros = 4}, true},
    {"chimera", {.stages = 4, .micros = 9, .pairs = 2}},
    {"chimera", {.stages = 8, .micros = 8, .pairs = 2}},
    {"chimera", {.stages = 4, .micros = 11, .method = Method::kDoubling}},
    {"chimera", {.stages = 4, .micros = 8, .method = Method::kDoubling, .fused = true}},
    {"chimera", {.stages = 2, .micros = 5, .method = Method::kHalving}, true},
    {"pipedream", {.stages = 3, .micros = 2, .steps = 3}},
    {"pipedream", {.stages = 4, .micros = 2, .steps = 3}, true},
    {"pipedream-2bw", {.stages = 3, .micros = 3, .steps = 3}},
    {"pipedream-2bw", {.stages = 4, .micros = 2, .steps = 3}, true},
};

std::vector<Program> good_programs() {
  std::vector<Program> programs;
  for (const ReducePolicy policy :
       {ReducePolicy::kAtEnd, ReducePolicy::kEager, ReducePolicy::kEagerOpt}) {
    for (const auto& [name, spec, recomputes] : kGood) {
      const std::vector<bool> stages(static_cast<std::size_t>(spec.stages), recomputes);
      programs.push_back(lower(with_recompute(generate(name, spec), stages), policy));
    }
  }
  return programs;
}

// Calls visit(program, worker, position) for every action of every good program.
template <class Visit>
void for_each_action(Visit visit) {
  for (const Program& program : good_programs()) {
    for (std::size_t worker = 0; worker < program.rows.size(); ++worker) {
      for (std::size_t i = 0; i < program.rows[worker].size(); ++i) visit(program, worker, i);
    }
  }
}

auto at(Row& row, std::size_t position) {
  return row.begin() + static_cast<std::ptrdiff_t>(position);
}

// The rule that lacks without the action; none without a recompute: its stash is kept then.
std::optional<Rule> rule_for_dropped(const Row& row, const Action& action) {
  const auto is_later_step = [&](const Action& other) {
    return other.op == Op::kStep && other.stage == action.stage && other.micro > action.micro;
  };
  switch (action.op) {
    case Op::kRecompute:
      return {};
    case Op::kStashWeights:
    case Op::kFreeWeights:
      return Rule::kVersion;
    case Op::kStep:
      // The gradient goes on to the next step, although it was reduced.
      return std::any_of(row.begin(), row.end(), is_later_step) ? Rule::kReduce : Rule::kStep;
    default:
      return is_compute(action.op) ? Rule::kMissing
             : is_send(action.op)  ? Rule::kChannel
             : is_recv(action.op)  ? Rule::kDependency
                                   : Rule::kReduce;
  }
}

Rule rule_for_doubled(Op op) {
  if (!is_update(op)) return Rule::kDuplicate;
  if (op == Op::kStep) return Rule::kStep;
  return op == Op::kReduceBegin || op == Op::kReduceWait ? Rule::kReduce : Rule::kVersion;
}

TEST(Verify, FindsNothingWrongWithGoodPrograms) {
  for (const Program& program : good_programs()) {
    const Verdict verdict = verify(program);
    EXPECT_TRUE(verdict.ok()) << describe(program, verdict);
  }
}

TEST(Verify, CatchesEveryDroppedAction) {
  int broken = 0;
  for_each_action([&](Program program, std::size_t worker, std::size_t i) {
    const Action action = program.rows[worker][i];
    program.rows[worker].erase(at(program.rows[worker], i));
    const Verdict verdict = verify(program);
    // A send that lacks shows at the receive, on the peer; a receive at the computation after it.
    const auto where = is_send(action.op)
                           ? static_cast<std::size_t>(
                                 program.source.placement.worker(action.pipe, peer_stage(action)))
                           : worker;
    const auto rule = rule_for_dropped(program.rows[worker], action);
    EXPECT_TRUE(rule ? has(verdict, *rule, where) : verdict.ok())
        << to_string(action) << " dropped from P" << worker << "\n"
        << describe(program, verdict);
    broken += rule ? 1 : 0;
  });
  EXPECT_GT(broken, 1000);
}

TEST(Verify, CatchesEveryDoubledAction) {
  for_each_action([&](Program program, std::size_t worker, std::size_t i) {
    const Action action = program.rows[worker][i];
    program.rows[worker].insert(at(program.rows[worker], i), action);
    const Verdict verdict = verify(program);
    ASSERT_FALSE(verdict.ok()) << to_string(action);
    const Violation& first = verdict.violations.front();
    EXPECT_EQ(rule_name(first.rule), rule_name(rule_for_doubled(action.op)))
        << describe(program, verdict);
    EXPECT_EQ(first.worker, static_cast<int>(worker));
    EXPECT_EQ(first.position, static_cast<int>(i) + 1);
  });
}

// Reported cases (docs/cases.md): H23.
TEST(Verify, CatchesEveryActionSentElsewhere) {
  for_each_action([&](Program program, std::size_t worker, std::size_t i) {
    if (program.rows.size() < 2) return;
    const Action action = program.rows[worker][i];
    const std::size_t other = (worker + 1) % program.rows.size();
    program.rows[worker].erase(at(program.rows[worker], i));
    Row& target = program.rows[other];
    target.insert(at(target, std::min(i, target.size())), action);
    const Verdict verdict = verify(program);
    if (action.op == Op::kStep && action.stage == kAllStages) {
      EXPECT_TRUE(has(verdict, Rule::kStep, worker));
    } else if (is_update(action.op)) {
      const auto rule = rule_for_dropped(program.rows[worker], action);
      EXPECT_TRUE(has(verdict, *rule, worker)) << describe(program, verdict);
      const std::vector<int> holders = program.source.placement.holders(action.stage);
      const bool held = std::count(holders.begin(), holders.end(), static_cast<int>(other)) > 0;
      EXPECT_TRUE(has(verdict, held ? Rule::kReduce : Rule::kPlacement, other));
    } else {
      EXPECT_TRUE(has(verdict, Rule::kPlacement, other)) << describe(program, verdict);
    }
  });
}

TEST(Verify, CatchesActionsThatNameAnotherStageMicroBatchOrPipe) {
  for_each_action([&](const Program& program, std::size_t worker, std::size_t i) {
    const Action action = program.rows[worker][i];
    if (is_update(action.op)) return;
    const Schedule& source = program.source;
    const auto broken = [&](auto change) {
      Program copy = program;
      change(copy.rows[worker][i]);
      return verify(copy);
    };
    if (source.micros > 1) {
      EXPECT_FALSE(broken([&](Action& a) { a.micro = (a.micro + 1) % source.micros; }).ok());
    }
    if (source.stages() > 1) {
      const int stage = (action.stage + 1) % source.stages();
      EXPECT_FALSE(broken([&](Action& a) { a.stage = static_cast<std::int16_t>(stage); }).ok());
    }
    if (source.pipes() > 1) {
      const int pipe = (action.pipe + 1) % source.pipes();
      const Verdict verdict = broken([&](Action& a) { a.pipe = static_cast<std::int16_t>(pipe); });
      const bool stays = source.placement.worker(pipe, action.stage) == static_cast<int>(worker);
      EXPECT_TRUE(stays ? has(verdict, Rule::kPipe) : has(verdict, Rule::kPlacement, worker));
    }
    EXPECT_TRUE(has(broken([&](Action& a) { a.micro = source.micros; }), Rule::kShape, worker));
    EXPECT_TRUE(has(broken([&](Action& a) { a.stage = -1; }), Rule::kShape, worker));
  });
}

bool overlap(const Action& a, const Action& b) {
  return a.pipe == b.pipe && a.micro < b.micro + b.span && b.micro < a.micro + a.span;
}

// The rule that neighbours a, b break when swapped, b being of the weights, or nothing where they
// may be.
std::optional<Rule> rule_for_early_update(const Action& a, const Action& b) {
  if (b.op == Op::kStep && b.stage == kAllStages) return Rule::kReduce;
  if (a.stage != b.stage) return {};
  switch (b.op) {
    case Op::kReduceBegin:
      return contributes(a.op) ? std::optional(Rule::kReduce) : std::nullopt;
    case Op::kReduceWait:
      return a.op == Op::kReduceBegin ? std::optional(Rule::kReduce) : std::nullopt;
    case Op::kFreeWeights:
      return is_compute(a.op) && a.age == b.age ? std::optional(Rule::kVersion) : std::nullopt;
    case Op::kStep:
      return a.op == Op::kReduceWait ? Rule::kReduce : Rule::kVersion;
    default:
      return {};
  }
}

// The same for any b.
std::optional<Rule> rule_for_swapped(const Program& program, const Action& a, const Action& b) {
  const auto peer = [&](const Action& x) {
    return program.source.placement.worker(x.pipe, peer_stage(x));
  };
  if (is_update(b.op)) return rule_for_early_update(a, b);
  if (a.op == Op::kStep && is_compute(b.op)) return Rule::kVersion;
  if (is_update(a.op)) return {};
  if ((is_send(a.op) && is_send(b.op)) || (is_recv(a.op) && is_recv(b.op))) {
    return peer(a) == peer(b) ? std::optional(Rule::kChannel) : std::nullopt;
  }
  if (a.stage != b.stage || !overlap(a, b)) return {};
  if (is_recv(a.op) && is_compute(b.op)) return Rule::kDependency;
  if (is_compute(a.op) && is_send(b.op)) return Rule::kLifetime;
  if (is_compute(a.op) && is_compute(b.op)) return Rule::kOrder;
  return {};
}

TEST(Verify, CatchesEverySwapThatMattersAndNoOther) {
  int broken = 0, harmless = 0;
  for_each_action([&](Program program, std::size_t worker, std::size_t i) {
    Row& row = program.rows[worker];
    if (i + 1 == row.size()) return;
    const Action a = row[i], b = row[i + 1];
    std::swap(row[i], row[i + 1]);
    const Verdict verdict = verify(program);
    if (const auto rule = rule_for_swapped(program, a, b)) {
      EXPECT_TRUE(has(verdict, *rule, worker) || (*rule == Rule::kChannel && !verdict.ok()))
          << to_string(a) << " " << to_string(b) << "\n"
          << describe(program, verdict);
      ++broken;
    } else {
      // Nothing on this worker forbids it; at most the others now wait in a circle.
      for (const Violation& violation : verdict.violations) {
        EXPECT_EQ(violation.rule, Rule::kProgress) << to_string(a) << " " << to_string(b) << "\n"
                                                   << describe(program, verdict);
      }
      ++harmless;
    }
  });
  EXPECT_GT(broken, 500);
  EXPECT_GT(harmless, 100);
}

TEST(Verify, CatchesRowsThatWaitForEachOther) {
  // Each worker wants the other's second message first: legal rows, no progress.
  const Program program =
      lower(parse("name: circle\nstages: 2\nworkers: 2\npipes: 2\nmicros: 2\n"
                  "placement: 0,1;1,0\n"
                  "1F1@1,0F0,0B0,1B1@1\n1F0,0F1@1,1B0,0B1@1\n",
                  "circle"));
  const Verdict verdict = verify(program);
  ASSERT_EQ(verdict.violations.size(), 2U) << describe(program, verdict);
  EXPECT_EQ(verdict.violations[0].rule, Rule::kProgress);
  EXPECT_EQ(verdict.violations[1].rule, Rule::kProgress);
}

// Reported cases (docs/cases.md): H18.
TEST(Verify, CatchesASplitBackwardOutOfOrder) {
  const auto verdict_of = [](const char* row) { return verdict_on_one_worker(row, 1); };
  EXPECT_TRUE(verdict_of("0F0,0I0,0W0").ok());
  EXPECT_TRUE(verdict_of("0F0,0R0,0I0,0W0").ok());
  EXPECT_TRUE(has(verdict_of("0F0,0W0,0I0"), Rule::kOrder, 0));
  EXPECT_TRUE(has(verdict_of("0F0,0I0"), Rule::kMissing, 0));
  EXPECT_TRUE(has(verdict_of("0F0,0W0"), Rule::kMissing, 0));
  EXPECT_TRUE(has(verdict_of("0F0,0B0,0W0"), Rule::kDuplicate, 0));
  const Verdict verdict = verdict_of("0F0,0I0,0W0,0W0");
  ASSERT_EQ(verdict.violations.size(), 1U);
  EXPECT_EQ(verdict.violations[0].rule, Rule::kDuplicate);
  EXPECT_EQ(verdict.violations[0].what, "0W0 is done a second time");
}

TEST(Verify, CatchesARecomputeOutsideForwardToBackwardOrASecondOne) {
  const auto verdict_of = [](const char* row) { return verdict_on_one_worker(row, 2); };
  EXPECT_TRUE(verdict_of("0F0,0F1,0R0,0B0,0R1,0B1").ok());
  EXPECT_TRUE(verdict_of("0F0+2,0R0+2,0B0,0B1").ok());
  for (const char* row : {"0R0,0F0,0F1,0B0,0B1", "0F0,0B0,0R0,0F1,0B1", "0F0,0F1,0R0+2,0B1,0B0,0R0",
                          "0F0,0I0,0R0,0W0,0F1,0B1"}) {
    EXPECT_TRUE(has(verdict_of(row), Rule::kOrder, 0)) << row;
  }
  EXPECT_TRUE(has(verdict_of("0F0,0F1,0R0,0R0+2,0B0,0B1"), Rule::kDuplicate, 0));
}

TEST(Verify, AllowsNeighbouringStagesOnOneWorkerWithoutMessages) {
  const Program program =
      lower(parse("name: fold\nstages: 4\nworkers: 2\npipes: 1\nmicros: 1\n"
                  "placement: 0,1,1,0\n0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n",
                  "fold"));
  const Verdict verdict = verify(program);
  EXPECT_TRUE(verdict.ok()) << describe(program, verdict);
  EXPECT_EQ(verdict.channels.size(), 2U);
  EXPECT_EQ(verdict.channels[0].messages, 2);
}

// Both forwards of a worker before it receives anything: each of the opposite first sends needs a
// place to wait in. Between pairs of send and receive alone there would be none.
TEST(Verify, FindsHowManyMessagesAChannelMustHold) {
  const Program program =
      lower(parse("name: eager\nstages: 2\nworkers: 2\npipes: 2\nmicros: 4\n"
                  "placement: 0,1;1,0\n"
                  "0F0,0F1,1F2@1,1B2@1,1F3@1,1B3@1,0B0,0B1\n"
                  "0F2@1,0F3@1,1F0,1B0,1F1,1B1,0B2@1,0B3@1\n",
                  "eager"));
  const Verdict verdict = verify(program);
  ASSERT_TRUE(verdict.ok()) << describe(program, verdict);
  int most = 0;
  for (const Channel& channel : verdict.channels) most = std::max(most, channel.capacity);
  EXPECT_EQ(most, 1);
}

TEST(Verify, CatchesAMicroBatchThatChangesPipes) {
  // Both pipes have the same placement, so that nothing but the pipe is wrong.
  const Verdict verdict =
      verify(lower(parse("name: hop\nstages: 2\nworkers: 2\npipes: 2\nmicros: 1\n"
                         "placement: 0,1;0,1\n0F0,0B0\n1F0@1,1B0@1\n",
                         "hop")));
  EXPECT_TRUE(has(verdict, Rule::kPipe, 1));
}

TEST(Verify, CatchesAnActivationSentAfterItWasFreed) {
  Program program = lower(generate("1f1b", {.stages = 2, .micros = 1}));
  Row& row = program.rows[0];  // 0F0 0SEND_F0 0RECV_B0 0B0 ...
  std::rotate(row.begin() + 1, row.begin() + 2, row.begin() + 4);
  EXPECT_TRUE(has(verify(program), Rule::kLifetime, 0));
}

// Reported cases (docs/cases.md): M1.
TEST(Verify, CountsThePeakStashOfEachWorker) {
  const Verdict verdict = verify(lower(generate("1f1b", {.stages = 4, .micros = 8})));
  EXPECT_EQ(verdict.peak_stash, (std::vector<int>{4, 3, 2, 1}));
}

TEST(Explain, MarksThePlaceInTheRow) {
  Program program = lower(generate("1f1b", {.stages = 2, .micros = 1}));
  std::swap(program.rows[1][0], program.rows[1][1]);
  const Verdict verdict = verify(program);
  ASSERT_FALSE(verdict.ok());
  EXPECT_EQ(explain(program, verdict.violations[0]),
            "dependency: worker 1, position 0: 1F0 has no input: the activation of stage 0 is not "
            "there\n"
            "  P1  1F0 1RECV_F0 1B0 1SEND_B0 1REDUCE 1WAIT ...\n"
            "      ^^^                                     \n");
}

}  // namespace
}  // namespace chimera
