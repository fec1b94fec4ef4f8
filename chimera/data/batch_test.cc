#include "chimera/data/batch.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "chimera/base/error.h"

namespace chimera {
namespace {

using Groups = std::vector<std::vector<MicroBatch>>;

std::string message(int batch, int width, int micro_batch) {
  try {
    (void)cut(batch, width, micro_batch);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  return "no error";
}

TEST(Cut, IsTheDrawnExample) {
  const Cut result = cut(10, 2, 2);
  EXPECT_EQ(result.micros, 3);
  EXPECT_EQ(result.groups, (Groups{{{0, 2}, {2, 2}, {4, 1}}, {{5, 2}, {7, 2}, {9, 1}}}));
}

// Reported cases (docs/cases.md): S3.
TEST(Cut, SpreadsFewSamplesOverManyGroups) {  // a group with none would skew an average
  EXPECT_EQ(cut(5, 4, 1).groups,
            (Groups{{{0, 1}, {1, 1}}, {{2, 1}, {3, 0}}, {{3, 1}, {4, 0}}, {{4, 1}, {5, 0}}}));
  EXPECT_EQ(cut(5, 4, 2).groups, (Groups{{{0, 2}}, {{2, 1}}, {{3, 1}}, {{4, 1}}}));
}

void expect_good_cut(int batch, int width, int micro_batch) {
  const Cut result = cut(batch, width, micro_batch);
  ASSERT_EQ(result.groups.size(), static_cast<std::size_t>(width));
  const int share_most = (batch + width - 1) / width;
  ASSERT_EQ(result.micros, (share_most + micro_batch - 1) / micro_batch);
  int next = 0;
  int share_least = batch;
  for (const std::vector<MicroBatch>& group : result.groups) {
    ASSERT_EQ(group.size(), static_cast<std::size_t>(result.micros));
    const int begin = next;
    int least = batch;
    int most = 0;
    for (const MicroBatch& micro : group) {
      ASSERT_EQ(micro.first, next);
      next += micro.count;
      least = std::min(least, micro.count);
      most = std::max(most, micro.count);
    }
    ASSERT_LE(most, micro_batch);
    ASSERT_LE(most - least, 1);
    ASSERT_EQ(least == 0, next - begin < result.micros);  // empty only where there are too few
    ASSERT_LE(next - begin, share_most);
    share_least = std::min(share_least, next - begin);
  }
  ASSERT_EQ(next, batch);
  ASSERT_LE(share_most - share_least, 1);
}

// Reported cases (docs/cases.md): S3.
TEST(Cut, HasEverySampleOnceAndIsEvenForAllSizesUpTo40) {
  for (int batch = 1; batch <= 40; ++batch) {
    for (int width = 1; width <= batch; ++width) {
      for (int micro_batch = 1; micro_batch <= batch; ++micro_batch) {
        SCOPED_TRACE(::testing::Message() << batch << ", " << width << ", " << micro_batch);
        ASSERT_NO_FATAL_FAILURE(expect_good_cut(batch, width, micro_batch));
      }
    }
  }
}

// Reported cases (docs/cases.md): S5.
TEST(Cut, RefusesAMicroBatchLargerThanTheBatchNamingBoth) {
  EXPECT_EQ(message(8, 1, 16),
            "micro_batch is 16, more than the batch of 8 samples; lower micro_batch to at most 8 "
            "or raise batch");
}

TEST(Cut, RefusesFewerSamplesThanGroups) {
  EXPECT_EQ(message(3, 4, 1),
            "batch is 3, fewer samples than the width of 4 groups; raise batch to at least 4 or "
            "lower width");
}

TEST(Cut, RefusesCountsBelowOne) {
  EXPECT_EQ(message(0, 1, 1), "batch is 0; expected at least 1");
  EXPECT_EQ(message(1, -2, 1), "width is -2; expected at least 1");
  EXPECT_EQ(message(1, 1, 0), "micro_batch is 0; expected at least 1");
}

}  // namespace
}  // namespace chimera
