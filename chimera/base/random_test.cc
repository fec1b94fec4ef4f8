#include "chimera/base/random.h"

#include <gtest/gtest.h>

namespace chimera {
namespace {

// Known answers of the reference implementation (Random123's kat_vectors).
TEST(Philox, MatchesTheReferenceVectors) {
  EXPECT_EQ(philox({0, 0}, {0, 0, 0, 0}),
            (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0xa4093822, 0x299f31d0}, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStream, HasTheMomentsOfItsDistribution) {
  const RandomStream stream(7, 1, 2, 3);
  constexpr int kDraws = 200000;
  double uniform_sum = 0, normal_sum = 0, normal_square_sum = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double u = stream.uniform(static_cast<std::uint64_t>(i));
    const double z = stream.normal(static_cast<std::uint64_t>(i));
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    uniform_sum += u;
    normal_sum += z;
    normal_square_sum += z * z;
  }
  EXPECT_NEAR(uniform_sum / kDraws, 0.5, 0.005);
  EXPECT_NEAR(normal_sum / kDraws, 0.0, 0.01);
  EXPECT_NEAR(normal_square_sum / kDraws, 1.0, 0.02);
}

TEST(RandomStream, DiffersByEveryWordOfItsPurpose) {
  const PhiloxBlock base = RandomStream(1, 2, 3, 4).block(0);
  EXPECT_NE(base, RandomStream(9, 2, 3, 4).block(0));
  EXPECT_NE(base, RandomStream(1, 9, 3, 4).block(0));
  EXPECT_NE(base, RandomStream(1, 2, 9, 4).block(0));
  EXPECT_NE(base, RandomStream(1, 2, 3, 9).block(0));
  EXPECT_NE(base, RandomStream(1, 2, 3, 4).block(1));
  EXPECT_NE(RandomStream(0, 2, 3, 1).block(0), RandomStream(1, 2, 3, 0).block(0));
}

}  // namespace
}  // namespace chimera
