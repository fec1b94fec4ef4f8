#include "chimera/base/number.h"

#include <gtest/gtest.h>

#include <limits>

namespace chimera {
namespace {

TEST(Number, IsWrittenWithTheFewestDigitsThatReadBack) {
  EXPECT_EQ(exact_text(0.3), "0.3");
  EXPECT_EQ(exact_text(4), "4.0");
  EXPECT_EQ(exact_text(-12), "-12.0");
  EXPECT_EQ(exact_text(1e-5), "1e-05");
  for (const double value : {0.1 + 0.2, 1.0 / 3, std::numeric_limits<double>::max(),
                             std::numeric_limits<double>::denorm_min()}) {
    EXPECT_EQ(parse_number<double>(exact_text(value)), value);
  }
}

TEST(Number, IsReadWholeOrNotAtAll) {
  EXPECT_EQ(parse_number<int>("12"), 12);
  for (const char* word : {"", "12x", " 12", "1.5", "99999999999"}) {
    EXPECT_EQ(parse_number<int>(word), std::nullopt) << word;
  }
}

}  // namespace
}  // namespace chimera
