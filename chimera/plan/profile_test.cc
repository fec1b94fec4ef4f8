#include "chimera/plan/profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "chimera/base/error.h"
#include "chimera/base/random.h"
#include "chimera/plan/layer_csv.h"
#include "chimera/plan/testing.h"

namespace chimera {
namespace {

std::string profile_refusal(const std::string& text) {
  try {
    (void)parse_profile(text, "p.toml");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  return "";
}

TEST(Profile, IsReadAndPrintedTheSame) {
  Profile profile = test_profile(12);
  profile.model = {{"kind", "gpt2"}, {"hidden", "64"}};
  EXPECT_EQ(parse_profile(print(profile), "p"), profile);
  profile.p2p = LinkFit{{1e-6, 3e9}, 0.01, 0.05};
  profile.reduce = LinkFit{{2e-6, 1e9}, 0.02, 0.03};
  profile.source = "with \"quotes\"\nand lines";
  EXPECT_EQ(parse_profile(print(profile), "p"), profile);
  EXPECT_NE(print(profile).find("12 block"), std::string::npos);
}

TEST(Profile, TakesSizesBetweenPointsFromTheLineThroughThem) {
  const Profile profile = test_profile(2);
  const LayerKind& block = profile.kind("block");
  EXPECT_DOUBLE_EQ(block.at(3).forward_s, (block.at(2).forward_s + block.at(4).forward_s) / 2);
  EXPECT_DOUBLE_EQ(block.at(3).stash_bytes, 3 * block.at(1).stash_bytes);
  EXPECT_THROW((void)block.at(9), Error);
  EXPECT_THROW((void)block.at(0), Error);
}

TEST(Profile, RefusalsNameFileKeyAndValue) {
  const std::string good = print(test_profile(2));
  const auto changed = [&](std::string_view from, std::string_view to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  struct Case {
    std::string text, part;
  };
  const std::vector<Case> cases = {
      {changed("sequences = 1", "sequences = 0"), "layer 1: point 1: sequences is 0"},
      {changed("sequences = 2", "sequences = 1"), "ascending"},
      {changed("parameters = 4000000", "parameters = -1"), "parameters is -1"},
      {changed("forward_s", "forwards_s"), "p.toml: layer 1: point 1: forward_s is missing"},
      {changed("step_bytes = 0.0", "step_bytes = 2e300"), "; expected a number from 0 to 1e+15"},
      {changed("2 block", "2 blok"), "none is 'blok'"},
      {changed("2 block", "x block"), "with a count before"},
      {changed("'2 block'", ""), "at least one block"},
      {changed("device", "devise"), "device is missing"},
      {changed("[model]", "[modul]"), "model is missing"},
  };
  for (const Case& c : cases) {
    EXPECT_NE(profile_refusal(c.text).find(c.part), std::string::npos) << profile_refusal(c.text);
  }
}

// A message of 1 KB to 100 MB, as a link of 20 us and 4 GB/s would take it.
std::vector<SizedTime> link_points(double latency_s = 2e-5) {
  std::vector<SizedTime> points;
  for (const double bytes : {1e3, 1e4, 1e5, 1e6, 1e7, 1e8}) {
    points.push_back({bytes, latency_s + bytes / 4e9});
  }
  return points;
}

std::vector<SizedTime> noisy_points(std::uint64_t seed, double noise, double latency_s) {
  const RandomStream stream(seed, 7, 8);
  std::vector<SizedTime> points = link_points(latency_s);
  for (std::size_t i = 0; i < points.size(); ++i) {
    points[i].seconds *= 1 + noise * (2 * stream.uniform(i) - 1);
  }
  return points;
}

double relative_error(const SizedTime& point, const Link& link) {
  return std::abs(link.latency_s + point.bytes / link.bandwidth - point.seconds) / point.seconds;
}

double squares(const std::vector<SizedTime>& points, const Link& link) {
  double sum = 0;
  for (const SizedTime& point : points) sum += std::pow(relative_error(point, link), 2);
  return sum;
}

TEST(LinkFit, OfPointsOnALineIsTheLine) {
  const LinkFit fit = fit_link(link_points());
  EXPECT_NEAR(fit.link.latency_s, 2e-5, 1e-9);
  EXPECT_NEAR(fit.link.bandwidth, 4e9, 1e3);
  EXPECT_LT(fit.worst_error, 1e-9);
}

TEST(LinkFit, SaysHowFarPointsAreOffTheLine) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const std::vector<SizedTime> points = noisy_points(seed, 0.1, 2e-5);
    const LinkFit fit = fit_link(points);
    double sum = 0, worst = 0;
    for (const SizedTime& point : points) {
      sum += relative_error(point, fit.link);
      worst = std::max(worst, relative_error(point, fit.link));
    }
    EXPECT_NEAR(fit.mean_error, sum / static_cast<double>(points.size()), 1e-12);
    EXPECT_NEAR(fit.worst_error, worst, 1e-12);
    EXPECT_GT(fit.mean_error, 0.001);
    EXPECT_LT(fit.worst_error, 0.25);
    EXPECT_NEAR(fit.link.bandwidth, 4e9, 0.2 * 4e9);
    EXPECT_NEAR(fit.link.latency_s, 2e-5, 0.2 * 2e-5);
  }
}

// Also where the latency would come out below 0.
TEST(LinkFit, HasLeastSquaresOfAllLinesWithALatencyFrom0) {
  int without_latency = 0;
  for (const double latency_s : {2e-5, 1e-8, 0.0}) {
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
      const std::vector<SizedTime> points = noisy_points(seed, 0.2, latency_s);
      const Link link = fit_link(points).link;
      ASSERT_GE(link.latency_s, 0);
      without_latency += link.latency_s == 0 ? 1 : 0;
      const double least = squares(points, link);
      for (const double step : {-1e-3, 1e-3}) {
        const Link other{link.latency_s, link.bandwidth * (1 + step)};
        EXPECT_LE(least, squares(points, other)) << "seed " << seed;
        const Link later{std::max(0.0, link.latency_s + step * 1e-7), link.bandwidth};
        EXPECT_LE(least, squares(points, later)) << "seed " << seed;
      }
    }
  }
  EXPECT_GT(without_latency, 10);
}

TEST(LinkFit, NeedsTwoSizesOfWhichTheLargerTakesLonger) {
  const auto expect_none = [](const std::vector<SizedTime>& points) {
    try {
      (void)fit_link(points);
      ADD_FAILURE() << points.size() << " points";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kData);
      EXPECT_NE(std::string(error.what()).find("no line"), std::string::npos) << error.what();
    }
  };
  expect_none({});
  expect_none({{1e6, 1}});
  expect_none({{1e6, 1}, {2e6, 0.5}});
  expect_none({{1e6, 1}, {2e6, 1}});
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {  // whatever is rounded
    const RandomStream stream(seed, 9, 9);
    const double bytes = 1e6 * (1 + stream.uniform(0));
    expect_none({{bytes, 1 + stream.uniform(1)},
                 {bytes, 1 + stream.uniform(2)},
                 {bytes, 1 + stream.uniform(3)}});
  }
}

TEST(LayerCsv, ReadsThePublishedForm) {
  const LayerKind kind = parse_layer_csv(
      "bs,time_f,time_b,time_kron,mem_param,mem_act,mem_peak_err\n"
      "4,2.5,4.0,9,48,44,76\n"
      "8,4.5,7.5,9,49,88,100\n",
      "layer.csv", 1000);
  ASSERT_EQ(kind.points.size(), 2U);
  EXPECT_DOUBLE_EQ(kind.at(4).forward_s, 2.5e-3);
  EXPECT_DOUBLE_EQ(kind.at(8).backward_s, 7.5e-3);
  EXPECT_DOUBLE_EQ(kind.at(8).stash_bytes, 88.0 * 1024 * 1024 - 8000);  // without the input
  EXPECT_DOUBLE_EQ(kind.at(8).output_bytes, 8000);
  EXPECT_EQ(kind.parameters, 48 * 1024 * 1024 / 4);
  EXPECT_THROW((void)parse_layer_csv("bs,time_f\n1,2\n", "x", 1), Error);
  EXPECT_THROW((void)parse_layer_csv("bs,time_f,time_b,mem_param,mem_act,mem_peak_err\n", "x", 1),
               Error);
  EXPECT_THROW((void)parse_layer_csv("bs,time_f,time_b,mem_param,mem_act,mem_peak_err\n"
                                     "1,-2,1,1,1,1\n",
                                     "x", 1),
               Error);
}

}  // namespace
}  // namespace chimera
