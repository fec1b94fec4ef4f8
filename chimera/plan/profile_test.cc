#include "chimera/plan/profile.h"

#include <gtest/gtest.h>

#include <string>

#include "chimera/base/error.h"
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

TEST(LinkFit, FindsTheLineAndSaysHowFarPointsAreOff) {
  std::vector<SizedTime> points;
  for (const double bytes : {1e3, 1e4, 1e6, 1e8}) points.push_back({bytes, 2e-5 + bytes / 4e9});
  LinkFit fit = fit_link(points);
  EXPECT_NEAR(fit.link.latency_s, 2e-5, 1e-9);
  EXPECT_NEAR(fit.link.bandwidth, 4e9, 1e3);
  EXPECT_LT(fit.worst_error, 1e-9);
  points[2].seconds *= 1.2;
  fit = fit_link(points);
  EXPECT_GT(fit.worst_error, 0.03);
  EXPECT_GE(fit.worst_error, fit.mean_error);
  EXPECT_THROW((void)fit_link({{1e6, 1}}), Error);
  EXPECT_THROW((void)fit_link({{1e6, 1}, {2e6, 0.5}}), Error);
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
