#include "chimera/train/timing.h"

#include <gtest/gtest.h>

#include <vector>

namespace chimera {
namespace {

TEST(Timing, IsTheMeanWithoutTheQuickestAndTheSlowestTenth) {
  std::vector<double> seconds = {7, 3, 1, 9, 5, 2, 8, 4, 6, 1000};
  Timing timing = timing_of(seconds);
  EXPECT_DOUBLE_EQ(timing.typical_s, (2 + 3 + 4 + 5 + 6 + 7 + 8 + 9) / 8.0);
  EXPECT_EQ(timing.times, 10);
  seconds.pop_back();  // a tenth of nine is none
  timing = timing_of(seconds);
  EXPECT_DOUBLE_EQ(timing.typical_s, 5);
  EXPECT_EQ(timing.times, 9);
}

TEST(Timing, OfTwentyLeavesOutTwoAtEitherEnd) {
  std::vector<double> seconds(16, 3.0);
  for (const double out : {0.1, 0.2, 500.0, 600.0}) seconds.push_back(out);
  EXPECT_DOUBLE_EQ(timing_of(seconds).typical_s, 3);
  EXPECT_EQ(timing_of(seconds).spread, 0);
}

// Skewed times: sums of them come out at means.
TEST(Timing, IsNoMedian) { EXPECT_DOUBLE_EQ(timing_of({1, 1, 1, 5}).typical_s, 2); }

TEST(Timing, SaysHalfOfWhatTheMiddleTwoThirdsSpan) {
  // The third to the tenth of twelve: 5 - 3; the mean without a tenth at either end is 4.
  const std::vector<double> seconds = {1, 2, 3, 3, 4, 4, 4, 4, 5, 5, 6, 7};
  const Timing timing = timing_of(seconds);
  EXPECT_DOUBLE_EQ(timing.typical_s, 4);
  EXPECT_DOUBLE_EQ(timing.spread, (5.0 - 3.0) / 2 / 4);
}

TEST(Timing, OfOneOrNoneOrOfNoTimeHasNoSpread) {
  EXPECT_DOUBLE_EQ(timing_of({2.5}).typical_s, 2.5);
  EXPECT_EQ(timing_of({2.5}).spread, 0);
  EXPECT_EQ(timing_of({}).times, 0);
  EXPECT_EQ(timing_of({}).typical_s, 0);
  EXPECT_EQ(timing_of({0, 0, 0}).spread, 0);
}

}  // namespace
}  // namespace chimera
