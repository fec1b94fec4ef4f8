#include "chimera/transport/mpi/exit_guard.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace chimera {
namespace {

TEST(ExitGuardDeathTest, EndsTheProcessAndSaysWhyWhenTheLimitIsPassed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto stuck = [] {
    const ExitGuard guard(0.01, "the others never came");
    std::this_thread::sleep_for(std::chrono::hours(1));  // what cannot be ended otherwise
  };
  EXPECT_EXIT(stuck(), testing::ExitedWithCode(4), "error: the others never came");
}

TEST(ExitGuard, DoesNothingWhenTheThingEnds) { const ExitGuard guard(3600, "never said"); }

}  // namespace
}  // namespace chimera
