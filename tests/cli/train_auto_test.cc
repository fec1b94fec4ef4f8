// chimera train --auto as a user runs it, mistakes included.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "chimera/job/config.h"
#include "chimera/job/model_profile.h"
#include "chimera/plan/testing.h"
#include "tests/cli/small_job.h"

namespace chimera::cli {
namespace {

// Beside the job, a profile of its model in round numbers.
class TrainAuto : public ::testing::Test {
 protected:
  TrainAuto() {
    Profile profile = test_profile(4);
    Config config = parse_config(read(job_.path()), job_.path());
    config.model.vocabulary = 256;
    profile.model = model_keys(config);
    profile.p2p = profile.reduce = LinkFit{{1e-5, 2e9}, 0, 0};
    write(file("p.toml"), print(profile));
  }

  [[nodiscard]] std::string file(const std::string& name) const { return job_.folder.file(name); }
  [[nodiscard]] std::vector<std::string> planned(std::vector<std::string> more) const {
    more.insert(more.begin(), {"--auto", "--profile", file("p.toml")});
    return more;
  }

  SmallJob job_;
};

std::vector<double> losses(const std::string& log) {
  std::vector<double> all;
  for (const auto& line : log_lines(log)) all.push_back(line["loss"].get<double>());
  return all;
}

TEST_F(TrainAuto, MeasuresPlansAndTrainsTheSameModel) {
  const Result result = job_.train({"--auto", "--ranks", "2", "--log", file("auto")});
  ASSERT_EQ(result.code, 0) << result.err;
  for (const char* part : {"2 ranks at once", "plan        ", "s a step; ", "step 4/4"}) {
    EXPECT_TRUE(has(result.out, part)) << part << "\n" << result.out;
  }
  ASSERT_EQ(job_.train({"--log", file("given")}).code, 0);
  const auto automatic = losses(file("auto")), given = losses(file("given"));
  ASSERT_EQ(automatic.size(), 4U);
  for (std::size_t step = 0; step < 4; ++step) EXPECT_NEAR(automatic[step], given[step], 1e-4);
}

TEST_F(TrainAuto, DoesWhatTheWrittenPlanDoes) {
  const Result automatic =
      job_.train(planned({"--ranks", "4", "--log", file("auto"), "--save", file("save")}));
  ASSERT_EQ(automatic.code, 0) << automatic.err;
  const std::string plan = file("plan.toml");
  const Result written =
      run({"plan", job_.path(), "--profile", file("p.toml"), "--ranks", "4", "-o", plan});
  ASSERT_EQ(written.code, 0) << written.err;
  const Result trained = run({"train", plan, "--log", file("plan"), "--save", file("again")});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_EQ(losses(file("auto")), losses(file("plan")));
  const auto saved = [&](const std::string& name) {
    const std::string config = read(file(name) + "/config.toml");
    return config.substr(0, config.find("[plan]"));  // that part names the files planned with
  };
  EXPECT_EQ(saved("save"), saved("again"));
}

TEST_F(TrainAuto, OneRankNeedsNoLinks) {
  const Result result = job_.train({"--auto", "--ranks", "1", "--log", file("log")});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(losses(file("log")).size(), 4U);
}

TEST_F(TrainAuto, WritesNotOverItsProfile) {
  const std::string before = read(file("p.toml"));
  for (const char* output : {"--log", "--timeline"}) {
    const Result result = job_.train(planned({"--ranks", "2", output, file("p.toml")}));
    EXPECT_EQ(result.code, 2);
    EXPECT_TRUE(has(result.err, "which the run reads")) << result.err;
    EXPECT_EQ(read(file("p.toml")), before);
  }
}

TEST_F(TrainAuto, RefusesWhatMakesNoSense) {
  job_.expect_refused({"--ranks", "2"}, 2, "give --auto, or leave them out");
  job_.expect_refused({"--auto", "--ranks", "0"}, 2, "--ranks is 0");
  job_.expect_refused({"--auto", "--ranks", "many"}, 2, "--ranks");
  job_.expect_refused(planned({"--ranks", "2", "--memory", "1e-6"}), 2,
                      "the least that would do is ");
  job_.expect_refused(planned({"--ranks", "7", "--set", "train.batch=3"}), 2,
                      "no plan for 7 ranks");
  job_.expect_refused(planned({"--ranks", "2", "--set", "model.hidden=32"}), 2, "hidden");
  job_.expect_refused({"--auto", "--ranks", "2", "--profile", file("none")}, 3, "none");
}

}  // namespace
}  // namespace chimera::cli
