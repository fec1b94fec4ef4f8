// chimera profile as a user runs it, mistakes included.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/cli/program.h"

namespace chimera::cli {
namespace {

constexpr const char* kConfig = R"(
[model]
layers = 4
hidden = 16
heads = 2
sequence = 16
vocabulary = 50
[pipeline]
stages = 2
micro_batch = 2
)";

class Job {
 public:
  Job() { write(folder.file("run.toml"), kConfig); }

  Result profile(std::vector<std::string> words = {}) const {
    words.insert(words.begin(), {"profile", folder.file("run.toml"), "-o", folder.file("p.toml")});
    return run(words);
  }

  void expect_refused(std::vector<std::string> words, int code, const std::string& says) const {
    expect_error(profile(std::move(words)), code, says);
    EXPECT_EQ(folder.names(), std::vector<std::string>{"run.toml"}) << "left something behind";
  }

  Folder folder;
};

TEST(Profile, MeasuresLayersAndWritesThem) {
  const Job job;
  const Result result = job.profile({"--repeats", "2", "--ranks", "1"});
  ASSERT_EQ(result.code, 0) << result.err;
  for (const char* part :
       {"1 rank", "embedding", "block", "head", "stage", "2 times each", "profile written to "}) {
    EXPECT_TRUE(has(result.out, part)) << part << "\n" << result.out;
  }
  const std::string profile = read(job.folder.file("p.toml"));
  for (const char* part : {"first = ['embedding']", "blocks = ['4 block']", "last = ['head']",
                           "each = ['stage']", "hidden = '16'", "threads = '1'",
                           "vocabulary = '50'", "sequences = 1\n", "sequences = 2\n"}) {
    EXPECT_TRUE(has(profile, part)) << part << "\n" << profile;
  }
  EXPECT_FALSE(has(profile, "[p2p]")) << "one rank has no messages";
}

TEST(Profile, RefusesWhatMakesNoSense) {
  const Job job;
  job.expect_refused({"--repeats", "0"}, 2, "--repeats is 0");
  job.expect_refused({"--ranks", "0"}, 2, "--ranks is 0");
  job.expect_refused({"--micro-batches", "1,x"}, 2, "'x' is no number");
  job.expect_refused({"--set", "model.heads=3"}, 2, "heads");
  job.expect_refused({"--set", "data.tokenizer=none"}, 2, "unknown tokenizer 'none'");
  expect_error(run({"profile", "-o", job.folder.file("p.toml")}), 2, "nothing to profile");
  expect_error(run({"profile", job.folder.file("run.toml")}), 2, "--output");
}

}  // namespace
}  // namespace chimera::cli
