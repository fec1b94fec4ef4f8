#include "chimera/train/link_times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "chimera/base/error.h"
#include "chimera/plan/layout.h"

namespace chimera {
namespace {

constexpr double kSumSizes[] = {4e3, 1e5, 1e6, 16e6, 64e6};

// There and back: sums as Rabenseifner's formula has them, from any hop, give that hop.
TEST(LinkTimes, AHopGivesBackTheSumsItWasFittedTo) {
  for (const int ranks : {2, 3, 4, 7, 16}) {
    for (const Link& hop : {Link{3e-6, 2e9}, Link{5e-4, 1e8}, Link{0, 1e9}}) {
      std::vector<SizedTime> sums;
      for (const double bytes : kSumSizes)
        sums.push_back({bytes, rabenseifner_s(hop, ranks, bytes)});
      const LinkFit fit = fit_hop(sums, ranks);
      EXPECT_NEAR(fit.link.latency_s, hop.latency_s, 1e-9) << ranks;
      EXPECT_NEAR(fit.link.bandwidth, hop.bandwidth, 1e-6 * hop.bandwidth) << ranks;
      EXPECT_LT(fit.worst_error, 1e-9);
    }
  }
}

// Its errors are those of the sums, in parts of what was measured.
TEST(LinkTimes, AHopSaysHowFarTheSumsAreOff) {
  constexpr int kRanks = 4;
  std::vector<SizedTime> sums;
  for (const double bytes : kSumSizes) {
    const double off = sums.size() % 2 == 0 ? 1.1 : 0.9;
    sums.push_back({bytes, off * rabenseifner_s({2e-5, 1e9}, kRanks, bytes)});
  }
  const LinkFit fit = fit_hop(sums, kRanks);
  double worst = 0;
  for (const SizedTime& sum : sums) {
    const double fitted = rabenseifner_s(fit.link, kRanks, sum.bytes);
    worst = std::max(worst, std::abs(fitted / sum.seconds - 1));
  }
  EXPECT_NEAR(fit.worst_error, worst, 1e-9);
  EXPECT_GT(worst, 0.05);
}

TEST(LinkTimes, NoHopFitsSumsOfOneSize) {
  EXPECT_THROW((void)fit_hop({{1e6, 1e-3}}, 2), Error);
  EXPECT_THROW((void)fit_hop({{1e6, 1e-3}, {1e6, 2e-3}}, 2), Error);
}

}  // namespace
}  // namespace chimera
