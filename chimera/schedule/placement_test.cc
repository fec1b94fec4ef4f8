#include "chimera/schedule/placement.h"

#include <gtest/gtest.h>

#include "chimera/base/error.h"

namespace chimera {
namespace {

// Figure 8: D = 8, f = 2.
TEST(Placement, IsThatOfFigure8) {
  const Placement placement = Placement::bidirectional(8, 2);
  ASSERT_EQ(placement.pipes(), 4);
  for (int stage = 0; stage < 8; ++stage) {
    EXPECT_EQ(placement.worker(0, stage), stage);
    EXPECT_EQ(placement.worker(1, stage), (stage + 4) % 8);
    EXPECT_EQ(placement.worker(2, stage), 7 - stage);
    EXPECT_EQ(placement.worker(3, stage), (11 - stage) % 8);
  }
  EXPECT_EQ(placement.stages_of(0), (std::vector<int>{0, 3, 4, 7}));
  EXPECT_EQ(placement.holders(0), (std::vector<int>{0, 3, 4, 7}));
}

TEST(Placement, KnowsTheDirectionOfItsPipes) {
  for (const int pairs : {1, 2, 4}) {
    const Placement placement = Placement::bidirectional(8, pairs);
    for (int pair = 0; pair < pairs; ++pair) {
      EXPECT_FALSE(placement.is_up(pair)) << pairs << " " << pair;
      EXPECT_TRUE(placement.is_up(pairs + pair)) << pairs << " " << pair;
    }
  }
  EXPECT_FALSE(Placement::linear(1).is_up(0));
}

TEST(Placement, RefusesPipesOfDifferentLength) {
  using Map = std::vector<std::vector<int>>;
  for (const Map& map : {Map{{0, 1}, {0}}, Map{}, Map{{}}, Map{{0, -1}}}) {
    EXPECT_THROW(Placement{map}, Error);
  }
}

}  // namespace
}  // namespace chimera
