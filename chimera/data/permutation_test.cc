#include "chimera/data/permutation.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace chimera {
namespace {

std::vector<std::uint64_t> order(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch) {
  const Permutation permutation(size, seed, epoch);
  std::vector<std::uint64_t> result;
  for (std::uint64_t i = 0; i < size; ++i) result.push_back(permutation(i));
  return result;
}

void expect_bijection(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch) {
  const std::vector<std::uint64_t> values = order(size, seed, epoch);
  std::vector<bool> seen(size);
  for (const std::uint64_t value : values) {
    ASSERT_LT(value, size);
    ASSERT_FALSE(seen[value]) << "size " << size << ", twice " << value;
    seen[value] = true;
  }
}

TEST(Permutation, IsABijectionForEverySizeUpTo2000) {
  for (std::uint64_t size = 1; size <= 2000; ++size) expect_bijection(size, 1234 + size, size % 5);
}

TEST(Permutation, IsABijectionAroundPowersOfTwo) {
  for (const std::uint64_t size : {65535U, 65536U, 65537U, 131071U, 131073U, 300000U}) {
    expect_bijection(size, 7, 3);
  }
}

TEST(Permutation, LargeSizesStayInRangeAndDoNotCollide) {
  constexpr std::uint64_t kSize = (std::uint64_t{1} << 45) + 12345;
  const Permutation permutation(kSize, 7, 0);
  std::set<std::uint64_t> seen;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const std::uint64_t value = permutation(kSize - 1 - i);
    ASSERT_LT(value, kSize);
    ASSERT_TRUE(seen.insert(value).second);
  }
}

// A changed order would change every later training run: change it knowingly.
TEST(Permutation, TheOrderIsTheOneOfTheDrawnExample) {
  EXPECT_EQ(order(5, 4, 0), (std::vector<std::uint64_t>{3, 2, 4, 0, 1}));
}

TEST(Permutation, SeedsAndEpochsGiveDifferentOrders) {
  std::set<std::vector<std::uint64_t>> orders;
  for (std::uint64_t seed : {0ULL, 1ULL, 1ULL << 32, 1ULL << 63}) {
    for (std::uint64_t epoch = 0; epoch < 16; ++epoch) orders.insert(order(100, seed, epoch));
  }
  EXPECT_EQ(orders.size(), 64U);
}

// Each index lands in each tenth of the range about equally often over many epochs: the chi-squared
// statistic of 9 degrees of freedom exceeds 40 with a probability below 1e-5.
TEST(Permutation, AnIndexGoesEverywhereEquallyOften) {
  constexpr std::uint64_t kSize = 1000;
  constexpr int kEpochs = 4000;
  for (const std::uint64_t index : {0U, 1U, 499U, 999U}) {
    std::vector<int> tenths(10);
    for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
      ++tenths[Permutation(kSize, 42, epoch)(index) / 100];
    }
    double statistic = 0;
    for (const int count : tenths) {
      const double off = count - kEpochs / 10.0;
      statistic += off * off / (kEpochs / 10.0);
    }
    EXPECT_LT(statistic, 40) << "index " << index;
  }
}

// Neighbours in the text do not stay neighbours: of 10000 pairs about one would by chance.
TEST(Permutation, NeighboursAreTornApart) {
  const std::vector<std::uint64_t> values = order(10000, 5, 0);
  int still = 0;
  for (std::size_t i = 1; i < values.size(); ++i) still += values[i] == values[i - 1] + 1 ? 1 : 0;
  EXPECT_LT(still, 10);
}

}  // namespace
}  // namespace chimera
