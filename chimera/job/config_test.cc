#include "chimera/job/config.h"

#include <gtest/gtest.h>

#include <cmath>

#include "chimera/base/error.h"
#include "chimera/job/learning_rate.h"

namespace chimera {
namespace {

std::string refusal(std::string_view text, std::vector<std::string> overrides = {}) {
  try {
    (void)parse_config(text, "run.toml", overrides);
    return "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
}

void expect_refusal(const std::string& seen, const char* says) {
  EXPECT_NE(seen.find(says), std::string::npos) << seen << "\nexpected: " << says;
  EXPECT_EQ(seen.find('\n'), std::string::npos) << seen;
}

TEST(Config, PrintsWhatItReads) {
  Config config = parse_config(
      "[model]\nlayers = 8\nhidden = 32\nheads = 2\nsequence = 16\ndropout = 0.1\ntied = true\n"
      "dtype = \"bf16\"\n[data]\ntext = \"a \\\"quoted\\\" name.txt\"\n"
      "[train]\nsteps = 5\nlearning_rate = 1e-3\nclip = 1\n"
      "[pipeline]\nschedule = \"1f1b\"\nstages = 4\nsplit = [3, 2, 2, 1]\n",
      "run.toml");
  EXPECT_EQ(config.model.dtype, DType::kBFloat16);
  EXPECT_EQ(config.data.text, "a \"quoted\" name.txt");
  EXPECT_EQ(config.pipeline.split, "3,2,2,1");
  EXPECT_DOUBLE_EQ(config.train.clip, 1);
  EXPECT_EQ(print(parse_config(print(config), "printed")), print(config));
}

TEST(Config, TakesOverridesWithAndWithoutQuotes) {
  const std::vector<std::string> overrides = {"pipeline.schedule=1f1b", "pipeline.stages = 2",
                                              "pipeline.split=3,5", "data.text=\"x y\"",
                                              "train.learning_rate=2"};
  const Config config = parse_config("", "none", overrides);
  EXPECT_EQ(config.pipeline.schedule, "1f1b");
  EXPECT_EQ(config.pipeline.stages, 2);
  EXPECT_EQ(config.pipeline.split, "3,5");
  EXPECT_EQ(config.data.text, "x y");
  EXPECT_DOUBLE_EQ(config.train.learning_rate, 2);
}

TEST(Config, RefusesEachMistakeInOneLine) {
  expect_refusal(refusal("[pipeline]\nstagse = 4"),
                 "unknown key in [pipeline] 'stagse'; known: schedule, stages");
  expect_refusal(refusal("[pipeline]\nstagse = 4"), "(did you mean 'stages'?)");
  expect_refusal(refusal("[pipelin]\nstages = 4"), "(did you mean 'pipeline'?)");
  expect_refusal(refusal("[pipelin]"), "(did you mean 'pipeline'?)");
  expect_refusal(refusal("[pipeline]\nvirtual = 2"), "unknown key in [pipeline] 'virtual'");
  expect_refusal(refusal("stages = 4"), "'stages' stands outside a section");
  expect_refusal(refusal("[pipeline]\nstages = \"4\""),
                 "run.toml: pipeline.stages is '4'; expected a whole number from 1");
  expect_refusal(refusal("[pipeline]\nstages = 1.5"), "pipeline.stages is 1.5");
  expect_refusal(refusal("[pipeline]\nstages = 0"), "pipeline.stages is 0");
  expect_refusal(refusal("[pipeline]\nstages = 99999999999"), "pipeline.stages is 99999999999");
  expect_refusal(refusal("[train]\nlearning_rate = 0"), "expected a number above 0");
  expect_refusal(refusal("[train]\nlearning_rate = nan"), "expected a number above 0");
  expect_refusal(refusal("[train]\nclip = -1"), "expected a number from 0");
  expect_refusal(refusal("[model]\ntied = 1"), "expected true or false");
  expect_refusal(refusal("[model]\ndtype = \"fp3\""), "(did you mean '");
  expect_refusal(refusal("[data]\ntext = 3"), "expected a text in quotes");
  expect_refusal(refusal("[pipeline]\nsplit = [1, \"a\"]"), "pipeline.split is 'a'");
  expect_refusal(refusal("[model\nlayers = 1"), "run.toml:1: ");
  expect_refusal(refusal("", {"pipeline.stages"}), "--set is 'pipeline.stages'; expected section");
  expect_refusal(refusal("", {"stages=3"}), "--set is 'stages=3'; expected section.key=value");
  expect_refusal(refusal("", {"pipeline.stages=x"}), "--set: pipeline.stages is 'x'");
  EXPECT_THROW((void)load_config("/no/such/file.toml", {}), Error);
}

TEST(LearningRate, RisesThenFallsAlongACosineToATenth) {
  TrainConfig config;
  config.steps = 110;
  config.warmup_steps = 10;
  config.learning_rate = 1;
  EXPECT_DOUBLE_EQ(learning_rate(config, 0), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(config, 9), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(config, 10), 1.0);
  EXPECT_NEAR(learning_rate(config, 60), 0.55, 0.01);
  EXPECT_DOUBLE_EQ(learning_rate(config, 109), 0.1);
  for (int step = 11; step < 110; ++step) {
    EXPECT_LT(learning_rate(config, step), learning_rate(config, step - 1));
  }
}

TEST(LearningRate, IsDefinedForRunsOfAnyLength) {
  for (const auto& [steps, warmup] :
       {std::pair(1, 0), std::pair(1, 1), std::pair(5, 100), std::pair(3, 2), std::pair(3, 3)}) {
    TrainConfig config;
    config.steps = steps;
    config.warmup_steps = warmup;
    for (int step = 0; step < steps; ++step) {
      const double rate = learning_rate(config, step);
      EXPECT_TRUE(std::isfinite(rate) && rate > 0 && rate <= config.learning_rate);
    }
  }
}

}  // namespace
}  // namespace chimera
