#include "chimera/runtime/watch.h"

#include <gtest/gtest.h>

#include <future>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/runtime/launch.h"
#include "chimera/runtime/watched.h"

namespace chimera {
namespace {

constexpr Action kBackward2{.op = Op::kBackward, .stage = 2, .micro = 1};
constexpr WatchLimits kLimits{.limit_s = 5, .startup_s = 60};

Position working(double age_s) { return {RankPhase::kWorking, kBackward2, -1, age_s}; }
Position waits_for(int peer, double age_s) {
  return {RankPhase::kWaiting, {.op = Op::kRecvGradient, .stage = 2, .micro = 1}, peer, age_s};
}
Position starting(double age_s, int peer = -1) { return {RankPhase::kStarting, {}, peer, age_s}; }
Position long_work(double age_s) { return {RankPhase::kLongWork, kBackward2, -1, age_s}; }
Position done() { return {RankPhase::kDone, {}, -1, 100}; }

TEST(FindCulprit, LeavesARunThatGetsOnAlone) {
  const std::vector<std::vector<Position>> fine = {
      {},
      {working(4.9)},
      {working(1), waits_for(0, 100), waits_for(1, 200)},   // a deep pipeline
      {starting(50), waits_for(0, 50), waits_for(-1, 50)},  // a slow start
      {long_work(50), waits_for(0, 50)},                    // a checkpoint
      {waits_for(1, 100), waits_for(0, 4)},                 // just woken
      {done(), done()},
      {done(), waits_for(0, 3)},
  };
  for (std::size_t i = 0; i < fine.size(); ++i) EXPECT_FALSE(find_culprit(fine[i], kLimits)) << i;
}

TEST(FindCulprit, NamesWhoIsToBlame) {
  struct Case {
    std::vector<Position> positions;
    std::string text;
  };
  const std::vector<Case> cases = {
      {{waits_for(1, 9), working(5.1), waits_for(1, 20)},
       "rank 1, stage 2, micro-batch 1, backward, for 5.10 s; the limit is 5 s (limits.seconds)"},
      {{working(6), working(7)}, "rank 1, stage 2"},
      {{starting(61, 1), starting(61), starting(61, 1)}, "rank 1, starting, for 61 s: it has not"},
      {{waits_for(1, 80), starting(61)}, "rank 1, starting"},
      {{waits_for(1, 80), long_work(61)}, "rank 1, writing a checkpoint, for 61 s"},
      // A lost message: 0 waits for 1, which waits for 2, which waits for 1's answer.
      {{waits_for(1, 8), waits_for(2, 7), waits_for(1, 6)},
       "rank 2, stage 2, micro-batch 1, recv-gradient, waiting for rank 1, for 6.00 s; the limit"},
      {{waits_for(-1, 9), waits_for(2, 7), waits_for(-1, 8)},
       "rank 1, stage 2, micro-batch 1, "
       "recv-gradient, waiting for rank 2"},
      {{waits_for(1, 8), done()}, "waiting for rank 1, for 8.00 s, which is done; the limit"},
      // One in a sum waits for those that wait for messages.
      {{waits_for(-1, 8), waits_for(0, 6)},
       "rank 1, stage 2, micro-batch 1, recv-gradient, waiting for rank 0, for 6.00 s"},
      {{waits_for(-1, 8), waits_for(-1, 6)},
       "rank 0, stage 2, micro-batch 1, recv-gradient, "
       "waiting for other ranks, for 8.00 s"},
  };
  for (const Case& c : cases) {
    const auto why = find_culprit(c.positions, kLimits);
    ASSERT_TRUE(why) << c.text;
    EXPECT_NE(why->find(c.text), std::string::npos) << *why << "\nexpected: " << c.text;
  }
}

TEST(Position, TravelsAsANote) {
  for (const Position& position :
       {working(0.5), waits_for(3, 2), waits_for(-1, 2), starting(1), done(), long_work(3)}) {
    EXPECT_EQ(describe(7, Position::from_note(position.to_note())), describe(7, position));
  }
  for (const char* note : {"", "x", "9 0 0 0 0 0", "1 99 0 0 0 0", "1 2 3"}) {
    EXPECT_EQ(Position::from_note(note).phase, RankPhase::kStarting) << note;
  }
}

TEST(PositionBoard, KeepsStartingUntilTheFirstAction) {
  PositionBoard board(2);
  board.enter(1, RankPhase::kWaiting, 0);
  EXPECT_EQ(board.read(1).phase, RankPhase::kStarting);
  EXPECT_EQ(board.read(1).peer, 0);
  board.begin(1, kBackward2);
  EXPECT_EQ(board.read(1).phase, RankPhase::kWorking);
  {
    const PhaseScope waiting(board, 1, RankPhase::kWaiting, 0);
    EXPECT_EQ(board.read(1).phase, RankPhase::kWaiting);
    EXPECT_EQ(board.read(1).action, kBackward2);
  }
  EXPECT_EQ(board.read(1).phase, RankPhase::kWorking);
  EXPECT_EQ(board.read(0).phase, RankPhase::kStarting);
}

TEST(Watch, EndsTheProcessOfARankThatNeverComesBack) {
  std::promise<std::string> ended;
  std::string aborted;
  std::mutex mutex;
  const Watch watch({
      .limits = {.limit_s = 0.2, .startup_s = 60},
      .grace_s = 0.1,
      .look = [] { return std::vector<Position>{working(0.3)}; },
      .on_stall =
          [&](const std::string& why) {
            const std::lock_guard lock(mutex);
            aborted = why;
          },
      .aborted =
          [&] {
            const std::lock_guard lock(mutex);
            return aborted;
          },
      .hard_exit =
          [&, once = std::make_shared<std::once_flag>()](const std::string& why) {
            std::call_once(*once, [&] { ended.set_value(why); });
          },
  });
  EXPECT_NE(ended.get_future().get().find("rank 0, stage 2, micro-batch 1, backward"),
            std::string::npos);
}

// What ends a world of three ranks, of which rank 1 does `deed` in its second action.
std::string ending(const std::function<void(const Rank&)>& deed) {
  try {
    launch_threads(3, {.limit_s = 0.5, .startup_limit_s = 20}, [&](const Rank& rank) {
      rank.on_action({.op = Op::kForward, .stage = 1, .micro = 0});
      rank.on_action({.op = Op::kRecvActivation, .stage = 1, .micro = 7});
      if (rank.transport.rank() == 1) return deed(rank);
      (void)rank.transport.recv((rank.transport.rank() + 1) % 3, 5, kForever);
    });
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

TEST(LaunchThreads, EndsWhereAMessageNeverComes) {
  const std::string why =
      ending([](const Rank& rank) { (void)rank.transport.recv(2, 5, kForever); });
  EXPECT_NE(why.find("stage 1, micro-batch 7, recv-activation, waiting for rank"),
            std::string::npos)
      << why;
}

TEST(LaunchThreads, NamesTheRankThatStalls) {
  const std::string why = ending([](const Rank& rank) {
    const std::string own = cat("rank ", rank.transport.rank());
    // A stall that an abort ends, so that the test goes on: it asks without waiting.
    for (;;) (void)rank.transport.recv(2, 5, 0);
  });
  EXPECT_EQ(why.find("rank 1, stage 1, micro-batch 7, recv-activation, for 0."), 0U) << why;
}

}  // namespace
}  // namespace chimera
