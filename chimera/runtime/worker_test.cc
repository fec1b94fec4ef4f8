#include "chimera/runtime/worker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <set>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/generate/generate.h"
#include "chimera/runtime/launch.h"
#include "chimera/runtime/waiting_stage.h"
#include "chimera/schedule/lower.h"
#include "chimera/schedule/recompute.h"
#include "chimera/schedule/text_form.h"
#include "chimera/schedule/verify.h"

namespace chimera {
namespace {

Message number(double value) {
  Message message = make_message(DType::kFloat64, {1});
  std::memcpy(message.data, &value, sizeof value);
  return message;
}

double value_of(const Message& message) {
  double value = 0;
  std::memcpy(&value, message.data, sizeof value);
  return value;
}

constexpr double weight_of(int stage) { return 1.0 + 0.5 * stage; }
constexpr double sample(int micro) { return 1.0 + 0.25 * micro; }

// y = weight x, loss = the last y: integers and quarters, so sums are exact in any order. The stage
// also adds each input gradient to a value that the first and last stage share.
class LinearStage final : public Stage {
 public:
  LinearStage(int stage, int stages, int group, double* own, double* shared)
      : stage_(stage), stages_(stages), group_(group), own_(own), shared_(shared) {}

  Message forward(int micro, Message input, ForwardUse use) override {
    if (throw_at == micro) throw std::runtime_error("the stage is broken");
    const double x = stage_ == 0 ? sample(micro) + group_ : value_of(input);
    (use.recomputed ? inputs_ : stash_)[micro] = x;
    read_[micro] = version(use.age);
    return stage_ + 1 < stages_ ? number(weight_of(stage_) * x) : Message{};
  }
  void recompute(int micro, int age) override {
    EXPECT_EQ(version(age), read_.at(micro));
    stash_.insert(inputs_.extract(micro));
  }
  Message backward(int micro, Message gradient) override {
    const double g = stage_ + 1 < stages_ ? value_of(gradient) : 1.0;
    *own_ += g * stash_.at(micro);
    if (stage_ == 0 || stage_ + 1 == stages_) *shared_ += g;
    stash_.erase(micro);
    return stage_ > 0 ? number(weight_of(stage_) * g) : Message{};
  }
  void stash_weights() override { EXPECT_TRUE(kept.insert(steps).second); }
  void free_weights(int age) override { EXPECT_EQ(kept.erase(steps - age), 1U); }
  int in_flight() const override { return static_cast<int>(stash_.size()); }
  std::vector<Gradient> gradients() override {
    std::vector<Gradient> parts = {{buffer(own_), {stage_}}};
    if (stage_ == 0 || stage_ + 1 == stages_) {
      std::vector<int> both = {0};
      if (stages_ > 1) both.push_back(stages_ - 1);
      parts.push_back({buffer(shared_), both});
    }
    if (stage_ > 0) std::reverse(parts.begin(), parts.end());  // no order is promised
    return parts;
  }

  int throw_at = -1;
  int steps = 0;       // done
  std::set<int> kept;  // versions of the weights beside the newest

 private:
  int version(int age) const {
    const int wanted = steps - age;
    EXPECT_TRUE(age == 0 || kept.contains(wanted)) << "version " << wanted;
    return wanted;
  }
  static Buffer buffer(double* value) {
    return {DType::kFloat64, reinterpret_cast<std::byte*>(value), 1};
  }
  int stage_, stages_, group_;
  double *own_, *shared_;
  std::map<int, double> stash_, inputs_;
  std::map<int, int> read_;  // the version that a micro-batch's forward read
};

struct RankResult {
  std::map<int, double> own;  // by stage
  double shared = 0;
  int peak_stash = 0;
};

// One step of `schedule` on all ranks of `groups` groups.
std::vector<RankResult> run_linear(const Schedule& schedule, int groups, ReducePolicy policy) {
  const Program program = lower(schedule, policy);
  const Verdict verdict = verify(program);
  const int workers = schedule.workers();
  std::vector<RankResult> results(static_cast<std::size_t>(groups * workers));
  launch_local(groups * workers, {}, [&](Transport& transport) {
    const Seat seat{groups, transport.rank() / workers, transport.rank() % workers};
    RankResult& result = results[static_cast<std::size_t>(transport.rank())];
    Stages stages;
    for (const int stage : schedule.placement.stages_of(seat.worker)) {
      stages[stage] = std::make_unique<LinearStage>(stage, schedule.stages(), seat.group,
                                                    &result.own[stage], &result.shared);
    }
    const int bound = verdict.peak_stash[static_cast<std::size_t>(seat.worker)];
    Worker worker(program, seat, std::move(stages), transport, {.step = {}, .stash_bound = bound});
    EXPECT_EQ(worker.run_row().size(), program.rows[static_cast<std::size_t>(seat.worker)].size());
    result.peak_stash = worker.peak_stash();
    EXPECT_EQ(result.peak_stash, bound);
  });
  return results;
}

// The same gradients by hand.
std::vector<double> expected_own(int stages, int micros, int groups) {
  std::vector<double> own(static_cast<std::size_t>(stages), 0.0);
  for (int group = 0; group < groups; ++group) {
    for (int micro = 0; micro < micros; ++micro) {
      for (int stage = 0; stage < stages; ++stage) {
        double product = sample(micro) + group;
        for (int other = 0; other < stages; ++other) {
          if (other != stage) product *= weight_of(other);
        }
        own[static_cast<std::size_t>(stage)] += product;
      }
    }
  }
  return own;
}

double expected_shared(int stages, int micros, int groups) {
  double first = 1;
  for (int stage = 1; stage < stages; ++stage) first *= weight_of(stage);
  return micros * groups * (stages > 1 ? first + 1 : 1);
}

void expect_exact(const Schedule& schedule, int groups, ReducePolicy policy) {
  const auto own = expected_own(schedule.stages(), schedule.micros, groups);
  const double shared = expected_shared(schedule.stages(), schedule.micros, groups);
  const std::string what = cat(schedule.name, " D=", schedule.stages(), " N=", schedule.micros,
                               " pipes=", schedule.pipes(), " W=", groups);
  for (const RankResult& result : run_linear(schedule, groups, policy)) {
    for (const auto& [stage, value] : result.own) {
      EXPECT_DOUBLE_EQ(value, own[static_cast<std::size_t>(stage)]) << what << " stage " << stage;
      if (stage == 0 || stage + 1 == schedule.stages()) {
        EXPECT_DOUBLE_EQ(result.shared, shared) << what;
      }
    }
  }
}

// Reported cases (docs/cases.md): H1, M6, P7.
TEST(Worker, GivesTheGradientsOfOneDeviceForEverySchedule) {
  for (const Generator& generator : generators()) {
    for (const int d : {1, 2, 4, 6}) {
      if ((generator.even_stages && d % 2 != 0) || generator.asynchronous) continue;
      for (const int n : {1, 2, 3, d, d + 1, 2 * d}) {
        const Spec spec{.stages = d, .micros = n};
        expect_exact(generate(generator.name, spec), 1, ReducePolicy::kEagerOpt);
        expect_exact(generate(generator.name, spec), 2, ReducePolicy::kEager);
      }
    }
  }
}

TEST(Worker, RunsEveryMethodFusedOrNotWithAndWithoutRecompute) {
  for (const int n : {3, 4, 8, 13}) {
    for (const int pairs : {1, 2}) {
      for (const auto& [method, fused] :
           {std::pair(Method::kDirect, false), std::pair(Method::kDoubling, false),
            std::pair(Method::kDoubling, true), std::pair(Method::kHalving, false)}) {
        const Schedule schedule =
            generate("chimera",
                     {.stages = 4, .micros = n, .pairs = pairs, .method = method, .fused = fused});
        expect_exact(schedule, 1, ReducePolicy::kEagerOpt);
        expect_exact(with_recompute(schedule, {true, true, true, true}), 2, ReducePolicy::kAtEnd);
        expect_exact(with_recompute(schedule, {false, true, false, true}), 1, ReducePolicy::kEager);
      }
    }
  }
}

// Each stage finds the version it asks for, keeps as many as verify says, and steps with the sum of
// the gradients since its last step.
TEST(Worker, StepsOnTheWayWithTheVersionsThatVerifyCounts) {
  for (const char* name : {"pipedream", "pipedream-2bw"}) {
    const Program program = lower(generate(name, {.stages = 4, .micros = 5, .steps = 4}));
    const Verdict verdict = verify(program);
    ASSERT_TRUE(verdict.ok());
    std::vector<double> totals(8, 0.0);
    launch_local(8, {}, [&](Transport& transport) {
      const int rank = transport.rank(), worker = rank % 4;
      double own = 0, shared = 0;
      std::size_t most_kept = 0;
      auto made = std::make_unique<LinearStage>(worker, 4, rank / 4, &own, &shared);
      LinearStage& stage = *made;
      Stages stages;
      stages[worker] = std::move(made);
      const auto step = [&](const Action& action) {
        EXPECT_EQ(action.stage, worker);
        most_kept = std::max(most_kept, stage.kept.size());
        ++stage.steps;
        totals[static_cast<std::size_t>(rank)] += std::exchange(own, 0.0);
        shared = 0;
      };
      Worker(program, {2, rank / 4, worker}, std::move(stages), transport,
             {.step = step, .stash_bound = verdict.peak_stash[static_cast<std::size_t>(worker)]})
          .run_row();
      EXPECT_EQ(static_cast<int>(most_kept) + 1,
                verdict.peak_versions[static_cast<std::size_t>(worker)]);
    });
    for (std::size_t rank = 0; rank < 8; ++rank) {
      EXPECT_DOUBLE_EQ(totals[rank], expected_own(4, 20, 2)[rank % 4]) << name << " " << rank;
    }
  }
}

// The sums are the same whatever the buckets, and are over before their waits where work follows.
TEST(Worker, ReducesInBucketsWhileItComputes) {
  const Program program =
      lower(generate("chimera", {.stages = 4, .micros = 4}), ReducePolicy::kEager);
  std::atomic<int> early{0};
  launch_local(4, {}, [&](Transport& transport) {
    Stages stages;
    for (const int stage : program.source.placement.stages_of(transport.rank())) {
      stages[stage] = std::make_unique<WaitingStage>(WaitingStageSpec{.stage = stage,
                                                                      .stages = 4,
                                                                      .forward_s = 0.002,
                                                                      .backward_s = 0.004,
                                                                      .message_bytes = 64,
                                                                      .gradient_elements = 1000});
    }
    Worker worker(program, {1, 0, transport.rank()}, std::move(stages), transport,
                  {.bucket_bytes = 256});
    const auto intervals = worker.run_row();
    const auto reductions = worker.take_reductions();
    EXPECT_EQ(reductions.size(), 2U);
    for (const Interval& reduction : reductions) {
      EXPECT_LE(reduction.start_s, reduction.end_s);
      early += std::any_of(intervals.begin(), intervals.end(), [&](const Interval& other) {
        return is_compute(other.action.op) && other.start_s < reduction.end_s &&
               other.end_s > reduction.start_s;
      });
    }
  });
  EXPECT_GT(early.load(), 0);
}

TEST(Worker, RunsSeveralPairsOfPipes) {
  for (const int pairs : {2, 4}) {
    for (const int n : {1, 8, 19}) {
      expect_exact(generate("chimera", {.stages = 8, .micros = n, .pairs = pairs}), 1,
                   ReducePolicy::kAtEnd);
    }
  }
}

TEST(Worker, HandsResultsOverWhereTheNextStageIsItsOwn) {
  const Schedule fold = parse(
      "name: fold\nstages: 4\nworkers: 2\npipes: 1\nmicros: 2\nplacement: 0,1,1,0\n"
      "0F0,0F1,3F0,3B0,3F1,3B1,0B0,0B1\n1F0,2F0,1F1,2F1,2B0,1B0,2B1,1B1\n",
      "fold");
  expect_exact(fold, 1, ReducePolicy::kEagerOpt);
}

// Results of several micro-batches wait for their sends, each by itself, in any order.
// Reported cases (docs/cases.md): G19.
TEST(Worker, KeepsTheResultsOfEachMicroBatchUntilTheyAreSent) {
  Program program = lower(generate("gpipe", {.stages = 2, .micros = 2}));
  const auto reorder = [](Row& row, Op op) {  // compute 0, compute 1, transfer 1, transfer 0
    std::vector<Action> transfers;
    for (const Action& action : row) {
      if (action.op == op) transfers.insert(transfers.begin(), action);
    }
    std::erase_if(row, [&](const Action& action) { return action.op == op; });
    const auto end = std::find_if(row.begin(), row.end(),
                                  [](const Action& a) { return a.op == Op::kReduceBegin; });
    row.insert(is_recv(op) ? std::find_if(row.begin(), row.end(),
                                          [](const Action& a) { return a.op == Op::kBackward; })
                           : end,
               transfers.begin(), transfers.end());
  };
  reorder(program.rows[1], Op::kSendGradient);
  reorder(program.rows[0], Op::kRecvGradient);
  ASSERT_TRUE(verify(program).ok());
  std::vector<RankResult> results(2);
  launch_local(2, {}, [&](Transport& transport) {
    RankResult& result = results[static_cast<std::size_t>(transport.rank())];
    Stages stages;
    stages[transport.rank()] = std::make_unique<LinearStage>(
        transport.rank(), 2, 0, &result.own[transport.rank()], &result.shared);
    Worker(program, {1, 0, transport.rank()}, std::move(stages), transport, {}).run_row();
  });
  EXPECT_DOUBLE_EQ(results[0].own[0], expected_own(2, 2, 1)[0]);
}

// Reported cases (docs/cases.md): H19.
TEST(Worker, EndsEveryRankWithOneMessageWhenAStageThrows) {
  const Program program = lower(generate("chimera", {.stages = 4, .micros = 4}));
  std::mutex mutex;
  std::vector<std::string> messages;
  const auto start = std::chrono::steady_clock::now();
  const auto body = [&](Transport& transport) {
    double own = 0, shared = 0;
    Stages stages;
    for (const int stage : program.source.placement.stages_of(transport.rank())) {
      auto linear = std::make_unique<LinearStage>(stage, 4, 0, &own, &shared);
      if (transport.rank() == 2 && stage == 2) linear->throw_at = 1;
      stages[stage] = std::move(linear);
    }
    Worker worker(program, {1, 0, transport.rank()}, std::move(stages), transport, {});
    try {
      worker.run_row();
    } catch (const Error& error) {
      const std::lock_guard lock(mutex);
      messages.push_back(error.what());
      throw;
    }
  };
  const std::string expected =
      "rank 2, worker 2, stage 2, micro-batch 1, forward: the stage is broken";
  try {
    launch_local(4, {}, body);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCompute);
    EXPECT_EQ(std::string(error.what()), expected);
  }
  EXPECT_EQ(messages, std::vector<std::string>(4, expected));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
}

// Reported cases (docs/cases.md): H19.
TEST(Worker, EndsWithATimeLimitThatNamesTheMessage) {
  const Program program = lower(generate("1f1b", {.stages = 2, .micros = 1}));
  CheckedOptions options;
  options.limit_s = 0.05;
  const auto body = [&](Transport& transport) {
    if (transport.rank() == 1) return;  // never takes part
    double own = 0, shared = 0;
    Stages stages;
    stages[0] = std::make_unique<LinearStage>(0, 2, 0, &own, &shared);
    Worker(program, {1, 0, 0}, std::move(stages), transport, {}).run_row();
  };
  try {
    launch_local(2, options, body);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTimeout);
    EXPECT_NE(std::string(error.what()).find("worker 0, stage 0, micro-batch 0, recv-gradient"),
              std::string::npos)
        << error.what();
  }
}

// Reported cases (docs/cases.md): G28.
TEST(Worker, RefusesActionsThatItCannotRun) {
  const Program program = lower(parse(
      "name: split\nstages: 1\nworkers: 1\npipes: 1\nmicros: 1\nplacement: 0\n0F0,0I0,0W0\n", "s"));
  const auto body = [&](Transport& transport) {
    Worker worker(program, {1, 0, 0}, {}, transport, {});
  };
  EXPECT_THROW(launch_local(1, {}, body), Error);
}

TEST(WaitingStage, WaitsAtLeastAsLongAsItShould) {
  const Program program = lower(generate("1f1b", {.stages = 2, .micros = 2}));
  std::atomic<double> longest{0};
  launch_local(2, {}, [&](Transport& transport) {
    Stages stages;
    stages[transport.rank()] =
        std::make_unique<WaitingStage>(WaitingStageSpec{.stage = transport.rank(),
                                                        .stages = 2,
                                                        .forward_s = 0.001,
                                                        .backward_s = 0.002,
                                                        .message_bytes = 64,
                                                        .gradient_elements = 16});
    Worker worker(program, {1, 0, transport.rank()}, std::move(stages), transport, {});
    const auto intervals = worker.run_row();
    longest = std::max(longest.load(), intervals.back().end_s - intervals.front().start_s);
  });
  EXPECT_GE(longest.load(), 0.009);  // (N + D - 1) (F + B)
}

}  // namespace
}  // namespace chimera
