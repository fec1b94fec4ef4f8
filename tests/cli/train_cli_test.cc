// chimera train and sample as a user runs them, mistakes included.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/small_job.h"

namespace chimera::cli {
namespace {

TEST(Train, TrainsLogsSavesAndSamples) {
  const SmallJob job;
  const std::string log = job.folder.file("log"), save = job.folder.file("save");
  const Result result = job.train({"--log", log, "--save", save});
  ASSERT_EQ(result.code, 0) << result.err;
  for (const char* part : {"step 1/4", "step 4/4", "loss ", "tokens/s", "predicted", "P0 ", "P3 ",
                           "last step as measured", "bound 3,4,4,3"}) {
    EXPECT_TRUE(has(result.out, part)) << part << "\n" << result.out;
  }
  const auto lines = log_lines(log);
  ASSERT_EQ(lines.size(), 4U);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i]["step"], i + 1);
    EXPECT_GT(lines[i]["loss"].get<double>(), 0);
    EXPECT_GT(lines[i]["gradient_norm"].get<double>(), 0);
    EXPECT_GT(lines[i]["tokens_per_s"].get<double>(), 0);
    EXPECT_GT(lines[i]["seconds"].get<double>(), 0);
    EXPECT_GE(lines[i]["bubble_ratio"].get<double>(), 0);
    EXPECT_LT(lines[i]["bubble_ratio"].get<double>(), 1);
  }
  EXPECT_NEAR(lines[0]["loss"].get<double>(), std::log(256.0), 0.2);
  const std::vector<std::string> words = {"sample", save, "--prompt", "In the", "--tokens", "20"};
  const Result text = run(words);
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_EQ(text.out.rfind("In the", 0), 0U);
  EXPECT_EQ(text.out.size(), 6U + 20U + 1U);
  EXPECT_EQ(run(words).out, text.out);
  EXPECT_EQ(run({"sample", save, "--prompt", "x", "--temperature", "1e-308"}).code, 0);
}

// The printed loss is the true one whichever rank has it, in every layout.
// Reported cases (docs/cases.md): G14.
TEST(Train, LogsTheSameLossAndNormInEveryLayout) {
  const SmallJob job;
  std::vector<std::vector<nlohmann::json>> logs;
  for (const std::vector<std::string>& layout :
       {std::vector<std::string>{"pipeline.stages=1", "pipeline.schedule=gpipe"},
        {"pipeline.stages=2", "pipeline.schedule=1f1b"},
        {"pipeline.stages=4", "pipeline.schedule=gpipe", "pipeline.micro_batch=3"},
        {"pipeline.stages=4", "pipeline.pairs=2"},
        {"pipeline.stages=2", "pipeline.width=2", "pipeline.micro_batch=1"}}) {
    const std::string log = job.folder.file("log" + std::to_string(logs.size()));
    std::vector<std::string> words = {"--log", log, "--set", "model.dtype=fp64"};
    for (const std::string& key : layout) words.insert(words.end(), {"--set", key});
    const Result result = job.train(words);
    ASSERT_EQ(result.code, 0) << result.err;
    logs.push_back(log_lines(log));
    ASSERT_EQ(logs.back().size(), 4U);
    for (std::size_t step = 0; step < 4; ++step) {
      for (const char* field : {"loss", "gradient_norm"}) {
        const double expected = logs.front()[step][field];
        EXPECT_NEAR(logs.back()[step][field].get<double>(), expected, 1e-10 * expected);
      }
    }
  }
}

// Reported cases (docs/cases.md): H13.
TEST(Train, GoesOnWithTheNextEpochWhereTheTextEnds) {
  SmallJob job;
  write(job.folder.file("text"), std::string(10 * 16 + 1, 'x'));  // ten samples
  const Result result = job.train({"--set", "train.steps=3"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(has(result.out, "step 3/3"));
}

TEST(Train, RefusesBadTexts) {
  SmallJob job;
  job.set(job.folder.file("none"));
  job.expect_refused({}, 3, "none");
  write(job.folder.file("empty"), "");
  job.set(job.folder.file("empty"));
  job.expect_refused({}, 3, "empty");
  write(job.folder.file("short"), std::string(3 * 16 + 1, 'x'));
  job.set(job.folder.file("short"));
  job.expect_refused({}, 3, "3");
  job.set("");
  job.expect_refused({}, 2, "data.text is empty");
}

// Reported cases (docs/cases.md): H23.
TEST(Train, RefusesBadConfigurations) {
  const SmallJob job;
  job.expect_refused({"--set", "pipeline.stagse=4"}, 2, "did you mean 'stages'");
  job.expect_refused({"--set", "pipeline.stages=four"}, 2, "pipeline.stages is 'four'");
  job.expect_refused({"--set", "pipeline.schedule=chimerra"}, 2, "did you mean 'chimera'");
  job.expect_refused({"--set", "pipeline.stages=6"}, 2, "6");
  job.expect_refused({"--set", "pipeline.stages=3"}, 2, "nearest is 2 or 4");
  job.expect_refused({"--set", "pipeline.micro_batch=16"}, 2, "16");
  job.expect_refused({"--set", "pipeline.split=1,1,1,2"}, 2, "5");
  job.expect_refused({"--set", "pipeline.virtual=2"}, 2, "unknown key in [pipeline] 'virtual'");
  job.expect_refused({"--virtual", "2"}, 2, "--virtual");
  job.expect_refused({"--set", "model.heads=3"}, 2, "3");
  expect_error(run({"train", job.folder.file("other.toml")}), 3, "other.toml");
}

TEST(Train, RefusesSizesBeyondAllMeasureInOneLine) {
  const SmallJob job;
  job.expect_refused({"--set", "model.layers=100000000"}, 2, "at most 10000");
  job.expect_refused({"--set", "model.hidden=2000000000", "--set", "model.heads=1"}, 2,
                     "operations");
  job.expect_refused({"--set", "train.batch=2000000000"}, 3, "2000000000");
  job.expect_refused({"--set", "pipeline.threads=100000"}, 2, "from 1 to 1024");
  job.expect_refused({"--set", "pipeline.width=5000", "--set", "train.batch=200"}, 2, "5000");
}

TEST(Train, RefusesALogThatWouldReplaceWhatItReads) {
  const SmallJob job;
  const std::string text = read(job.folder.file("text"));
  job.expect_refused({"--log", job.folder.file("text")}, 2, "which the run reads");
  job.expect_refused({"--log", job.folder.file("run.toml")}, 2, "which the run reads");
  EXPECT_EQ(read(job.folder.file("text")), text);
}

TEST(Train, EndsWhenItDiverges) {
  const SmallJob job;
  const Result result = job.train({"--set", "train.learning_rate=1e300"});
  EXPECT_EQ(result.code, 4);
  EXPECT_TRUE(has(result.err, "the training diverged")) << result.err;
}

TEST(Train, RefusesFoldersThatItCannotWriteBeforeItStarts) {
  const SmallJob job;
  job.expect_refused({"--log", job.folder.file("none/log")}, 3, "none/log");
  job.expect_refused({"--save", job.folder.file("text/save")}, 3, "text/save");
}

// Reported cases (docs/cases.md): H19.
TEST(Train, EndsWithOneMessageForATokenOutsideTheVocabulary) {
  const SmallJob job;
  const Result result =
      job.train({"--set", "model.vocabulary=100", "--save", job.folder.file("s")});
  EXPECT_EQ(result.code, 3) << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  for (const char* part :
       {"rank ", "worker ", "stage 0", "micro-batch ", "forward", "vocabulary of 100"}) {
    EXPECT_TRUE(has(result.err, part)) << result.err;
  }
}

TEST(Train, StopsCleanlyAfterTheStepWhenInterrupted) {
  const SmallJob job;
  const std::string save = job.folder.file("save");
  const Result result = run_and_signal(
      {"train", job.folder.file("run.toml"), "--set", "train.steps=100000", "--save", save}, SIGINT,
      [](const std::string& out) { return has(out, "step 1/"); });
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(has(result.out, "stopped after step ")) << result.out;
  EXPECT_EQ(run({"sample", save, "--prompt", "x", "--tokens", "3"}).code, 0);
}

// The folder of a step is whole: it can be gone on from, and sampled.
TEST(Train, GoesOnFromItsCheckpoints) {
  const SmallJob job;
  const std::string folder = job.folder.file("checkpoints"), log = job.folder.file("log");
  const std::vector<std::string> save = {"--set", "train.checkpoint_folder=" + folder, "--set",
                                         "train.checkpoint_every=2"};
  const auto with = [&](std::vector<std::string> words) {
    words.insert(words.end(), save.begin(), save.end());
    return job.train(words);
  };
  const auto expect_stopped = [](const Result& result, int code, const std::string& says) {
    EXPECT_EQ(result.code, code) << result.err;
    EXPECT_TRUE(has(result.err, says)) << result.err;
  };
  const Result first = with({"--log", log});
  ASSERT_EQ(first.code, 0) << first.err;
  expect_stopped(job.train({"--resume", job.folder.file("none")}), 3, "none' does not exist");
  expect_stopped(with({"--resume", folder + "/step-00000002", "--set", "model.layers=8"}), 2,
                 "model.layers is 4 in the checkpoint");
  expect_stopped(with({}), 2, "of another run; go on from it with --resume latest");
  write(folder + "/step-00000004/manifest.json", "{");
  const Result second = with({"--resume", "latest", "--log", log, "--set", "pipeline.stages=2"});
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_TRUE(has(second.err, "it is cut off or damaged; passed over\n")) << second.err;
  EXPECT_TRUE(has(second.out, "going on after step 2 from " + folder + "/step-00000002"));
  const auto lines = log_lines(log);  // of both
  ASSERT_EQ(lines.size(), 6U);
  EXPECT_EQ(lines[4]["step"], 3);
  EXPECT_NEAR(lines[5]["loss"].get<double>(), lines[3]["loss"].get<double>(), 1e-3);
  EXPECT_EQ(run({"sample", folder + "/step-00000004", "--prompt", "x", "--tokens", "3"}).code, 0);
  write(folder + "/step-00000004/manifest.json", "{");
  expect_error(run({"sample", folder + "/step-00000004", "--prompt", "x"}), 3,
               "cut off or damaged");
}

// As after a kill between the renames of a save: the weights know their own configuration.
TEST(Train, SavesWeightsThatKnowTheirConfiguration) {
  const SmallJob job;
  const std::string save = job.folder.file("save");
  ASSERT_EQ(job.train({"--save", save}).code, 0);
  const std::vector<std::string> words = {"sample", save, "--prompt", "In", "--tokens", "5"};
  const Result before = run(words);
  const auto json = nlohmann::json::parse(read(save + "/config.json"));
  EXPECT_EQ(json["n_layer"], 4);
  EXPECT_EQ(json["vocab_size"], 256);
  EXPECT_EQ(json["tie_word_embeddings"], false);
  std::filesystem::remove(save + "/config.toml");
  EXPECT_EQ(run(words).out, before.out);
}

TEST(Train, ExplainsEveryKey) {
  const Result result = run("train --help");
  EXPECT_EQ(result.code, 0);
  for (const char* key : {"micro_batch", "learning_rate", "warmup_steps", "dtype", "tokenizer"}) {
    EXPECT_TRUE(has(result.out, key)) << key;
  }
}

TEST(Sample, RefusesWhatIsNoModelAndWhatMakesNoSense) {
  const SmallJob job;
  const std::string save = job.folder.file("save");
  ASSERT_EQ(job.train({"--set", "train.steps=1", "--save", save}).code, 0);
  expect_error(run({"sample", job.folder.file("none"), "--prompt", "x"}), 3, "none");
  expect_error(run({"sample", save, "--prompt", ""}), 2, "prompt is empty");
  expect_error(run({"sample", save, "--prompt", "x", "--tokens", "0"}), 2, "--tokens is 0");
  expect_error(run({"sample", save, "--prompt", "x", "--temperature", "-1"}), 2, "--temperature");
  std::string weights = read(save + "/model.safetensors");
  write(save + "/model.safetensors", weights.substr(0, weights.size() / 2));
  expect_error(run({"sample", save, "--prompt", "x"}), 3, "model.safetensors");
}

}  // namespace
}  // namespace chimera::cli
