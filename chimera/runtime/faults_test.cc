#include "chimera/runtime/faults.h"

#include <gtest/gtest.h>
#include <sys/time.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <memory>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include "chimera/base/error.h"
#include "chimera/runtime/deeds.h"

namespace chimera {
namespace {

ActionFault deed_in(std::string_view text) { return std::get<ActionFault>(parse_fault(text)); }
FaultPlan harm_in(std::string_view text) { return std::get<FaultPlan>(parse_fault(text)); }

TEST(Faults, ReadsDeedsAtActions) {
  const ActionFault kill = deed_in("kill@rank=2,action=17");
  EXPECT_EQ(kill.deed, Deed::kKill);
  EXPECT_EQ(kill.rank, 2);
  EXPECT_EQ(kill.action, 17);
  EXPECT_FALSE(kill.step || kill.seed);
  const ActionFault thrown = deed_in("throw@rank=0,step=3,action=1");
  EXPECT_EQ(thrown.deed, Deed::kThrow);
  EXPECT_EQ(thrown.step, 3);
  EXPECT_EQ(deed_in("stall@seed=1").deed, Deed::kStall);
  const ActionFault chosen = deed_in("seed=7,kind=memory");
  EXPECT_EQ(chosen.deed, Deed::kMemory);
  EXPECT_EQ(chosen.seed, 7U);
}

TEST(Faults, ReadsHarmToMessages) {
  const FaultPlan drop = harm_in("drop@rank=1,message=3");
  EXPECT_EQ(drop.kind, FaultKind::kDrop);
  EXPECT_EQ(drop.rank, 1);
  EXPECT_EQ(drop.message, 3U);
  const FaultPlan delay = harm_in("delay@seed=7,probability=0.1,seconds=0.05");
  EXPECT_EQ(delay.kind, FaultKind::kDelay);
  EXPECT_EQ(delay.rank, kEveryRank);
  EXPECT_EQ(delay.probability, 0.1);
  EXPECT_EQ(delay.delay_s, 0.05);
  EXPECT_FALSE(delay.once);
  EXPECT_TRUE(harm_in("kind=corrupt,probability=1").once);
}

void expect_refusal(const std::function<void()>& call, const std::string& part) {
  try {
    call();
    ADD_FAILURE() << "taken; expected: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
        << error.what() << "\n  does not say: " << part;
  }
}

TEST(Faults, RefusesWhatItDoesNotKnow) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "unknown kind ''"},
      {"kil@rank=1,action=1", "did you mean 'kill'?"},
      {"rank=1,action=2", "says no kind"},
      {"kill", "says not where; expected rank and action, or a seed"},
      {"kill@rank=1", "says not where"},
      {"kill@", "'' is not a pair; expected key=value"},
      {"kill@rank", "'rank' is not a pair"},
      {"kill@rank=1,rank=2,action=1", "says rank twice"},
      {"kill@kind=drop,seed=1", "says kind twice"},
      {"kill@rank=-1,action=1", "rank is '-1'; expected a number from 0"},
      {"kill@rank=1,action=0", "action is '0'; expected a number from 1"},
      {"kill@rank=1x,action=1", "rank is '1x'"},
      {"kill@rank=1,action=99999999999", "action is '99999999999'"},
      {"kill@rank=1,message=2", "unknown key of a kill 'message'"},
      {"drop@rank=1,action=2", "unknown key of a drop 'action'"},
      {"drop@rank=1", "expected either message, counted from 1, or probability"},
      {"drop@message=1,probability=0.5", "expected either message"},
      {"drop@probability=2", "probability, above 0 and up to 1"},
      {"drop@probability=nan", "probability is 'nan'"},
  };
  for (const auto& [text, part] : cases) {
    expect_refusal([&] { (void)parse_fault(text); }, part);
    expect_refusal([&] { (void)parse_fault(text); }, "for example kill@rank=2,action=17");
  }
}

TEST(Faults, ASeedReachesEveryRankActionAndStep) {
  const FaultRange range{.actions = {5, 3, 5}, .steps = 2};
  std::set<std::pair<int, int>> places;
  for (int seed = 0; seed < 400; ++seed) {
    ActionFault fault{.deed = Deed::kKill, .seed = seed};
    fault = settle(fault, range);
    places.insert({*fault.rank, *fault.action});
  }
  std::set<std::pair<int, int>> all;
  for (int rank = 0; rank < 3; ++rank) {
    for (int action = 1; action <= (rank == 1 ? 6 : 10); ++action) all.insert({rank, action});
  }
  EXPECT_EQ(places, all);
}

TEST(Faults, WhatIsSaidIsNotChosen) {
  const FaultRange range{.actions = {5, 3}, .steps = 4};
  const ActionFault settled = settle(deed_in("kill@seed=3,rank=1,step=2"), range);
  EXPECT_EQ(settled.rank, 1);
  EXPECT_GT(*settled.action, 3);
  EXPECT_LE(*settled.action, 6);
  EXPECT_EQ(settle(deed_in("kill@rank=0,action=2,step=4"), range).action, 17);
  EXPECT_EQ(settle(deed_in("kill@rank=0,action=13"), range).action, 13);
  expect_refusal([&] { (void)settle(deed_in("kill@rank=2,action=1"), range); },
                 "there is no rank 2 among 2");
  expect_refusal([&] { (void)settle(deed_in("kill@rank=1,action=4,step=1"), range); },
                 "rank 1 has 3 actions in a step, so there is no action 4");
  expect_refusal([&] { (void)settle(deed_in("kill@rank=1,action=13"), range); },
                 "rank 1 ends after 4 steps of 3 actions, before action 13");
}

TEST(Faults, ThrowsAtItsActionAlone) {
  ActionFault fault = deed_in("throw@rank=1,action=3");
  EXPECT_FALSE(at_action(fault, 0));
  const auto hook = at_action(fault, 1);
  EXPECT_NO_THROW(hook({}));
  EXPECT_NO_THROW(hook({}));
  try {
    hook({});
    ADD_FAILURE() << "nothing thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "thrown on purpose (fault throw@rank=1,action=3)");
  }
  EXPECT_NO_THROW(hook({}));
}

TEST(FaultsDeathTest, Kills) {
  EXPECT_EXIT(at_action(deed_in("kill@rank=0,action=1"), 0)({}), testing::KilledBySignal(SIGKILL),
              "");
}

int alarms = 0;
void on_alarm(int) {
  if (++alarms == 3) _exit(43);
}

// Two signals that are handled do not end it; the third ends the process.
TEST(FaultsDeathTest, StallsUntilTheProcessEnds) {
  const auto stall_under_alarms = [] {
    std::signal(SIGALRM, on_alarm);
    const itimerval every = {.it_interval = {0, 2000}, .it_value = {0, 2000}};
    setitimer(ITIMER_REAL, &every, nullptr);
    at_action(deed_in("stall@rank=0,action=1"), 0)({});
    _exit(0);
  };
  EXPECT_EXIT(stall_under_alarms(), testing::ExitedWithCode(43), "");
}

// The sanitizers' allocators end the process where the real one throws.
TEST(FaultsDeathTest, UsesUpMemoryAndGivesItBack) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's allocator does not throw";
#else
  const auto use_up = [] {
    try {
      use_up_memory();
    } catch (const std::bad_alloc&) {
      const auto after = std::make_unique<char[]>(std::size_t{128} << 20);  // beyond that limit
      _exit(after ? 44 : 0);
    }
  };
  EXPECT_EXIT(use_up(), testing::ExitedWithCode(44), "");
#endif
}

}  // namespace
}  // namespace chimera
