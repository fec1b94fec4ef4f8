// chimera plan and chimera emulate, on a profile in round numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "chimera/job/config.h"
#include "chimera/job/model_profile.h"
#include "chimera/plan/testing.h"
#include "tests/cli/program.h"

namespace chimera::cli {
namespace {

constexpr const char* kConfig =
    "[model]\nlayers = 8\nhidden = 64\nheads = 2\nsequence = 32\nvocabulary = 100\n"
    "[data]\ntext = \"no_such_text.txt\"\n"
    "[train]\nbatch = 16\nclip = 0.0\n";

// A folder with a configuration, its profile, and a machine.
class Planning : public ::testing::Test {
 protected:
  Planning() {
    write(config(), kConfig);
    Profile profile = test_profile(8);
    profile.model = model_keys(parse_config(kConfig, "c"));
    profile.p2p = profile.reduce = LinkFit{{1e-5, 2e9}, 0, 0};
    write(file("p.toml"), print(profile));
    write(file("m.toml"), print(test_machine(8, 4)));
  }

  [[nodiscard]] std::string file(const std::string& name) const { return folder_.file(name); }
  [[nodiscard]] std::string config() const { return file("c.toml"); }
  [[nodiscard]] std::vector<std::string> words(const std::string& mode,
                                               std::vector<std::string> more) const {
    std::vector<std::string> all = {mode,           config(),    "--profile",
                                    file("p.toml"), "--machine", file("m.toml")};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

 private:
  Folder folder_;
};

TEST_F(Planning, PrintsATableWithReasons) {
  const Result result = run(words("plan", {"--ranks", "4"}));
  ASSERT_EQ(result.code, 0) << result.err;
  for (const char* part : {"schedule", "eq. 1", "bubble", "1. ", "the busiest worker computes",
                           "slower than the best", "layouts looked at", "refused: "}) {
    EXPECT_TRUE(has(result.out, part)) << part << "\n" << result.out;
  }
}

TEST_F(Planning, JsonHasAllOfIt) {
  const Result result = run(words("plan", {"--ranks", "4", "--json", "--top", "3"}));
  ASSERT_EQ(result.code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  ASSERT_EQ(json["plans"].size(), 3U);
  EXPECT_LE(json["plans"][0]["step_s"], json["plans"][1]["step_s"]);
  EXPECT_EQ(json["plans"][0]["peak_bytes"].size(), json["plans"][0]["stages"]);
  EXPECT_FALSE(json["refused"].empty());
  EXPECT_GT(json["considered"], 3);
}

// Again, a few times, where other work made it late: a step that catches up is short.
nlohmann::json emulated_undisturbed(const std::string& plan) {
  nlohmann::json json;
  for (int tries = 0; tries < 5; ++tries) {
    const Result result = run({"emulate", plan, "--json", "--steps", "2", "--stretch", "0.4"});
    EXPECT_EQ(result.code, 0) << result.err;
    json = nlohmann::json::parse(result.out);
    if (json["lag_s"] < 0.1 * json["predicted_step_s"].get<double>()) break;
  }
  return json;
}

// Every number of devices from 1 to 8: the plan is executed. (pipedream/issues/59: replicas that do
// not divide the batch.)
TEST_F(Planning, PlansForOneToEightDevicesAreExecuted) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    const std::string plan = file("plan.toml");
    const Result planned =
        run(words("plan", {"--ranks", std::to_string(ranks), "--batch", "8", "-o", plan}));
    ASSERT_EQ(planned.code, 0) << ranks << planned.err;
    const auto json = emulated_undisturbed(plan);
    const double predicted = json["predicted_step_s"], measured = json["measured_step_s"];
    EXPECT_NEAR(measured / predicted, 1, 0.5) << ranks;  // other work may be on the machine
    for (std::size_t worker = 0; worker < json["predicted_peak_bytes"].size(); ++worker) {
      const double bytes = json["predicted_peak_bytes"][worker];
      EXPECT_NEAR(json["measured_peak_bytes"][worker].get<double>() / bytes, 1, 0.05)
          << ranks << " ranks, worker " << worker;
    }
  }
}

TEST_F(Planning, EmulateComparesAndDraws) {
  const std::string plan = file("plan.toml");
  ASSERT_EQ(
      run(words("plan", {"--ranks", "4", "--stages", "4", "--schedules", "chimera", "-o", plan}))
          .code,
      0);
  const Result result =
      run({"emulate", plan, "--steps", "2", "--stretch", "0.05", "--timeline", file("t.html")});
  ASSERT_EQ(result.code, 0) << result.err;
  for (const char* part : {"predicted", "measured", "step", "P3"}) {
    EXPECT_TRUE(has(result.out, part)) << part << "\n" << result.out;
  }
  EXPECT_TRUE(has(read(file("t.html")), "emulated"));
}

TEST_F(Planning, AnEmulationNeedsADeviceForEachRankAndKeepsItsInputs) {
  const std::string plan = file("plan.toml");
  ASSERT_EQ(run(words("plan", {"--ranks", "8", "-o", plan})).code, 0);
  write(file("small"), print(test_machine(4, 4)));
  expect_error(run({"emulate", plan, "--machine", file("small")}), 2,
               "the number of ranks is 8; expected at most 4");
  std::filesystem::copy(file("p.toml"), file("p.json"));
  const std::string before = read(file("p.json"));
  expect_error(run({"emulate", plan, "--profile", file("p.json"), "--timeline", file("p.json")}), 2,
               "which the run reads");
  EXPECT_EQ(read(file("p.json")), before);
}

TEST_F(Planning, AnEmulatedPlanThatDoesNotFitIsMarked) {
  const std::string plan = file("plan.toml");
  ASSERT_EQ(run(words("plan", {"--ranks", "2", "-o", plan})).code, 0);
  const std::vector<std::string> emulated = {"emulate",   plan,   "--steps",  "2",
                                             "--stretch", "0.05", "--memory", "0.05"};
  const Result result = run(emulated);
  EXPECT_EQ(result.code, 1);
  for (const char* part : {"P1 ", "more than its 50.0 MB", "training would run out of memory"}) {
    EXPECT_TRUE(has(result.out, part)) << part << "\n" << result.out;
  }
}

TEST_F(Planning, DevicesMayDifferInMemory) {
  write(file("m.toml"), [] {
    Machine machine = test_machine(4, 1);
    machine.memory_bytes = {1.0e9, 1.0e9, 0.4e9, 1.0e9};
    return print(machine);
  }());
  const Result result = run(words("plan", {"--ranks", "4", "--json"}));
  ASSERT_EQ(result.code, 0) << result.err;
  const nlohmann::json found = nlohmann::json::parse(result.out);
  for (const auto& plan : found["plans"]) {
    for (std::size_t worker = 0; worker < plan["peak_bytes"].size(); ++worker) {
      EXPECT_LE(plan["peak_bytes"][worker], plan["limit_bytes"][worker]);
    }
  }
}

// The limit of the configuration is one of its plans, and of what trains as planned.
TEST_F(Planning, PipelineMemoryIsALimitOfEachDevice) {
  const std::string plan = file("plan.toml");
  const auto best = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--ranks", "4", "--json", "-o", plan});
    const Result result = run(words("plan", std::move(more)));
    EXPECT_EQ(result.code, 0) << result.err;
    return nlohmann::json::parse(result.out)["plans"][0];
  };
  const nlohmann::json free = best({});
  const nlohmann::json tight = best({"--set", "pipeline.memory=0.375"});
  EXPECT_GT(free["peak_bytes"][0], 0.375e9);
  for (const double bytes : tight["peak_bytes"]) EXPECT_LE(bytes, 0.375e9);
  EXPECT_EQ(load_config(plan, {}).pipeline.memory, "0.375");
  EXPECT_EQ(best({"--memory", "0.375"}), tight);
  EXPECT_EQ(load_config(plan, {}).pipeline.memory, "0.375");
  // --memory counts where both are given, and may be a list.
  EXPECT_EQ(best({"--memory", "4", "--set", "pipeline.memory=0.375"}), free);
  EXPECT_EQ(best({"--memory", "4,4,4,4,4,4,4,4", "--set", "pipeline.memory=0.375"}), free);
  EXPECT_EQ(load_config(plan, {}).pipeline.memory, "4,4");
  // A machine that holds less is not made to hold more.
  EXPECT_EQ(best({"--set", "pipeline.memory=99"}), free);
  expect_error(run(words("plan", {"--ranks", "4", "--set", "pipeline.memory=1,1"})), 2,
               "pipeline.memory is '1,1', a number for each worker");
}

TEST_F(Planning, AnEmulationCountsWhatThePlanAllows) {
  const std::string plan = file("plan.toml");
  const auto limits = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"emulate", plan, "--json", "--steps", "2", "--stretch", "0.05"});
    const Result result = run(more);
    EXPECT_EQ(result.code, 0) << result.err;
    return nlohmann::json::parse(result.out)["limit_bytes"].get<std::vector<double>>();
  };
  const auto planned = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--ranks", "8", "--stages", "4", "-o", plan});
    EXPECT_EQ(run(words("plan", std::move(more))).code, 0);
  };
  planned({"--set", "pipeline.memory=0.5"});
  EXPECT_EQ(limits({}), std::vector<double>(4, 0.5e9));
  EXPECT_EQ(limits({"--memory", "3"}), std::vector<double>(4, 3e9));
  // Of devices becomes of workers: the least of their devices in all groups.
  planned({"--memory", "1,2,3,4,5,1.5,7,8"});
  EXPECT_EQ(load_config(plan, {}).pipeline.memory, "1,1.5,3,4");
  EXPECT_EQ(limits({}), (std::vector<double>{1e9, 1.5e9, 3e9, 4e9}));
}

TEST_F(Planning, AsynchronousPlansAreEmulatedForTheStepsAskedFor) {
  const std::string plan = file("plan.toml");
  ASSERT_EQ(run(words("plan", {"--ranks", "2", "--schedules", "pipedream-2bw", "--stages", "2",
                               "-o", plan}))
                .code,
            0);
  const auto steps = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"emulate", plan, "--json", "--stretch", "0.05"});
    const Result result = run(more);
    EXPECT_EQ(result.code, 0) << result.err;
    return nlohmann::json::parse(result.out)["steps"].get<int>();
  };
  const int enough = steps({});
  EXPECT_GT(enough, 3);
  EXPECT_EQ(steps({"--set", "train.steps=1"}), enough);
  EXPECT_EQ(steps({"--steps", "3"}), 3);
}

TEST_F(Planning, WritesOverNothingThatItReads) {
  for (const std::string& input : {file("c.toml"), file("p.toml"), file("./m.toml")}) {
    const std::string before = read(input);
    expect_error(run(words("plan", {"--ranks", "2", "-o", input})), 2, "which the run reads");
    EXPECT_EQ(read(input), before);
  }
}

TEST_F(Planning, RefusesWithOneLine) {
  const auto refused = [&](std::vector<std::string> more, const std::string& part) {
    expect_error(run(words("plan", std::move(more))), 2, part);
  };
  refused({"--ranks", "0"}, "the number of ranks is 0");
  refused({"--ranks", "-3"}, "the number of ranks is -3");
  refused({"--ranks", "16"}, "at most 8, the devices of a machine");
  refused({"--ranks", "4", "--batch", "0"}, "the batch is 0");
  refused({"--ranks", "7", "--batch", "3", "--stages", "1"}, "no plan for 7 ranks");
  refused({"--ranks", "4", "--memory", "0.001"}, "the least that would do is ");
  refused({"--ranks", "4", "--memory", "1,1"}, "each of the 8 devices");
  refused({"--ranks", "4", "--memory", "-1"}, "--memory is '-1'");
  refused({"--ranks", "4", "--memory", "1e-9"}, "the least that would do is ");
  refused({"--ranks", "4", "--memory", ""}, "--memory is ''; expected a value");
  refused({"--ranks", "4", "-o", ""}, "--output is ''; expected a value");
  refused({"--ranks", "4", "--memory", "1e-300"}, "the least that would do is ");
  refused({"--ranks", "4", "--set", "data.tokenizer=bite"}, "unknown tokenizer 'bite'");
  refused({"--ranks", "4", "--set", "model.vocabulary=0"}, "its vocabulary is 100, but");
  refused({"--ranks", "4", "--set", "pipeline.memory=x"}, "expected gigabytes above 0, as 16\n");
  refused({"--ranks", "8", "--batch", "1", "--stages", "4"},
          "nearest is D=4 W=2: the batch of 1 sequences is no multiple of W x B = 2 x 1");
  refused({"--ranks", "7", "--batch", "8", "--stages", "7", "--schedules", "chimera"},
          "it needs an even number of stages, not 7; try other schedules");
  refused({"--ranks", "4", "--set", "model.layers=5000"}, "the model has 5000 blocks");
  refused({"--ranks", "4", "--stages", "3"}, "the number of stages is 3");
  refused({"--ranks", "4", "--schedules", "chimerra"}, "did you mean 'chimera'");
  refused({"--ranks", "4", "--micro-batches", "16"}, "profile more sizes");
  refused({"--ranks", "4", "--set", "model.hidden=32"}, "hidden");
  expect_error(run({"plan", config(), "--ranks", "4"}), 2, "no profile says what layers cost");
  expect_error(run({"plan", "--profile", file("p.toml"), "--ranks", "4"}), 2, "--batch");
  expect_error(run({"plan", "--profile", file("none.toml"), "--ranks", "4", "--batch", "8"}), 3,
               "none.toml");
  write(file("m.toml"),
        "format = \"chimera-machine-1\"\nname = \"m\"\nsource = \"\"\nnodes = 4\n"
        "devices_per_node = 1\n[p2p]\nlatency_s = 1e-6\n");
  refused({"--ranks", "4"}, "p2p: bytes_per_s is missing");
  write(file("m.toml"),
        "format = \"chimera-machine-1\"\nname = \"m\\nn\"\nsource = \"\"\nnodes = 4\n");
  refused({"--ranks", "4"}, "name is '''m n'''; expected a text of one line");
  expect_error(run({"plan", file(""), "--ranks", "4"}), 3, "Is a directory");
  expect_error(run({"emulate", config()}), 2, "no profile");
  expect_error(run({"emulate", config(), "--stretch", "0"}), 2, "--stretch is 0");
  expect_error(run({"emulate", file("none.toml")}), 3, "none.toml");
}

}  // namespace
}  // namespace chimera::cli
