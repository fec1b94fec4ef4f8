// chimera compare: its figures, its formats, and what it refuses.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/cli/program.h"

namespace chimera::cli {
namespace {

using Json = nlohmann::json;

// By "schedule method fused f", as far as it has them.
std::map<std::string, Json> compared(const std::string& options) {
  const Result result = run("compare " + options + " --format json");
  EXPECT_EQ(result.code, 0) << result.err;
  std::map<std::string, Json> schedules;
  const Json all = Json::parse(result.out);
  for (const Json& schedule : all.at("schedules")) {
    std::string name = schedule.at("schedule");
    if (!schedule.at("method").is_null()) name += " " + schedule["method"].get<std::string>();
    if (schedule.at("fused")) name += " fused";
    if (!schedule.at("pairs").is_null()) name += " " + std::to_string(schedule["pairs"].get<int>());
    EXPECT_TRUE(schedules.emplace(name, schedule).second) << name;
  }
  return schedules;
}

struct Expected {
  const char* name;
  double makespan, bubble_ratio;
  double weights_min, weights_max, stash_min, stash_max;
  int messages, capacity;
};

// The paper's table and figures for N = D = 4 with backward = 2 forward; GEMS: D F + N D B + (N-1)
// F.
TEST(Compare, HasTheFiguresOfThePaperForFourStages) {
  const std::vector<Expected> expected = {
      {"gpipe", 21, 3.0 / 7, 1, 1, 4, 4, 24, 0},
      {"1f1b", 21, 3.0 / 7, 1, 1, 1, 4, 24, 0},
      {"gems", 39, 27.0 / 39, 2, 2, 1, 1, 24, 0},
      {"chimera direct 1", 16, 0.25, 2, 2, 3, 4, 24, 0},
      {"chimera direct 2", 12, 0, 4, 4, 4, 4, 24, 0},
      {"chimera doubling 1", 16, 0.25, 2, 2, 3, 4, 24, 0},
      {"chimera halving 1", 14, 2.0 / 14, 2, 2, 3.5, 4, 48, 0},
      {"pipedream", 12, 0, 1, 4, 1, 4, 24, 0},
      {"pipedream-2bw", 12, 0, 2, 2, 1, 4, 24, 0},
  };
  auto schedules = compared("--stages 4 --micros 4 --forward 1 --backward 2");
  EXPECT_EQ(schedules.size(), 13U);
  for (const Expected& e : expected) {
    const Json& figures = schedules[e.name];
    ASSERT_TRUE(figures.is_object()) << e.name;
    EXPECT_NEAR(figures["makespan"], e.makespan, 1e-9) << e.name;
    EXPECT_NEAR(figures["bubble_ratio"], e.bubble_ratio, 1e-9) << e.name;
    EXPECT_EQ(figures["weights_min"], e.weights_min) << e.name;
    EXPECT_EQ(figures["weights_max"], e.weights_max) << e.name;
    EXPECT_EQ(figures["stash_min"], e.stash_min) << e.name;
    EXPECT_EQ(figures["stash_max"], e.stash_max) << e.name;
    EXPECT_EQ(figures["messages"], e.messages) << e.name;
    EXPECT_EQ(figures["capacity"], e.capacity) << e.name;
    EXPECT_TRUE(figures["reason"].is_null()) << e.name;
    EXPECT_EQ(figures["synchronous"], std::string(e.name).rfind("pipedream", 0) != 0) << e.name;
  }
}

// Figure 7: (b) direct 30, (c) doubling with fused pairs 28, (d) doubling 27; halving idles D - 2.
TEST(Compare, HasTheMethodsAtEqualWork) {
  auto schedules = compared("--stages 4 --micros 8 --pairs 1");
  EXPECT_EQ(schedules["chimera direct 1"]["makespan"], 30);
  EXPECT_EQ(schedules["chimera doubling fused 1"]["makespan"], 28);
  EXPECT_EQ(schedules["chimera doubling 1"]["makespan"], 27);
  EXPECT_EQ(schedules["chimera halving 1"]["makespan"], 26);
  EXPECT_EQ(schedules["chimera doubling 1"]["capacity"], 1);
  EXPECT_EQ(schedules["chimera doubling fused 1"]["capacity"], 0);
}

TEST(Compare, TakesTheCostsOfSimulate) {
  const std::string options =
      " --stages 4 --micros 6 --forward 1,2,2,1 --latency 0.25 --bandwidth 10 --message-bytes 2 "
      "--reduce-time 3 --step-time 1 --recompute 1,1,1,0 --reduce eager";
  auto schedules = compared(options.substr(1));
  for (const std::string name : {"gpipe", "1f1b", "gems"}) {
    const Json alone = Json::parse(run("simulate " + name + options + " --json").out);
    EXPECT_EQ(schedules[name]["makespan"], alone["makespan"]) << name;
    EXPECT_EQ(schedules[name]["bubble_ratio"], alone["bubble_ratio"]) << name;
  }
  const Json chimera = Json::parse(run("simulate chimera --pairs 2" + options + " --json").out);
  EXPECT_EQ(schedules["chimera direct 2"]["makespan"], chimera["makespan"]);
}

// The slope of long runs is the time of a step, whatever its period.
TEST(Compare, TimesAsynchronousSchedulesInTheSteadyState) {
  for (const std::string costs :
       {"--forward 1", "--forward 1,3,1.5,2 --backward 2,1,4,0.7 --latency 3.3",
        "--latency 5 --step-time 1", "--forward 3,1,1,1 --latency 2.9 --reduce-time 0.7"}) {
    const std::string sizes = " --stages 4 --micros 3 " + costs;
    auto schedules = compared(sizes.substr(1) + " --pairs 1");
    for (const std::string name : {"pipedream", "pipedream-2bw"}) {
      const auto end = [&](int steps) {
        const std::string line =
            "simulate " + name + sizes + " --json --steps " + std::to_string(steps);
        return Json::parse(run(line).out).at("makespan").get<double>();
      };
      EXPECT_NEAR(schedules[name]["makespan"], (end(480) - end(240)) / 240, 1e-9)
          << name << " " << costs;
    }
  }
}

TEST(Compare, SaysWhyAScheduleCannotBe) {
  auto odd = compared("--stages 5 --micros 4");
  EXPECT_EQ(odd.size(), 6U);
  EXPECT_TRUE(has(odd["chimera"]["reason"], "the nearest is 4 or 6"));
  EXPECT_TRUE(odd["chimera"]["makespan"].is_null());
  auto pairs = compared("--stages 8 --micros 8 --pairs 3,2");
  EXPECT_EQ(pairs.size(), 10U);
  EXPECT_TRUE(has(pairs["chimera 3"]["reason"], "1, 2, 4"));
  EXPECT_EQ(pairs["chimera direct 2"]["stash_max"], 8);
  EXPECT_TRUE(has(run("compare --stages 5 --micros 4").out, "the nearest is 4 or 6\n"));
}

TEST(Compare, PrintsATableWithTheBestMarked) {
  const Result result = run("compare --stages 4 --micros 4 --pairs 1");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_TRUE(has(result.out, "4 stages, 4 micro-batches a step\n"));
  EXPECT_TRUE(has(result.out, "1f1b                           21   0.429        1*   1-4 "));
  EXPECT_TRUE(has(result.out, "chimera halving        1       14*  0.143*       2  3.5-4 "));
  EXPECT_TRUE(has(result.out, "pipedream                      12   0.000 "));  // no rival of those
  for (const char* stages : {"4", "5"}) {  // numbers, and a reason to wrap
    std::istringstream in(run_on_terminal({"compare", "--stages", stages, "--micros", "64"}, 80));
    for (std::string line; std::getline(in, line);) EXPECT_LE(line.size(), 80U) << line;
  }
}

TEST(Compare, PrintsMarkdownAndCsv) {
  const Result md = run("compare --stages 4 --micros 4 --pairs 1 --format md");
  EXPECT_TRUE(has(md.out, "| schedule | f | makespan | bubble |"));
  EXPECT_TRUE(
      has(md.out, "| chimera halving | 1 | **14** | **0.143** | 2 | 3.5-4 | 48 | 0 | sync |"));
  const Result csv = run("compare --stages 3 --micros 4 --format csv");
  EXPECT_EQ(csv.out.substr(0, csv.out.find('\n')),
            "schedule,method,fused,pairs,synchronous,makespan,bubble_ratio,weights_min,weights_max,"
            "stash_min,stash_max,messages,capacity,reason");
  EXPECT_TRUE(has(csv.out, "\n1f1b,,false,,true,18.0,"));
  EXPECT_TRUE(has(csv.out, "\nchimera,,false,,true,,,,,,,,,\"stages is 3; "));
}

TEST(Compare, WritesToAFile) {
  const Folder folder;
  const std::string options = "compare --stages 2 --micros 2";
  EXPECT_EQ(run(options + " -o " + folder.file("a")).out, "");
  EXPECT_EQ(read(folder.file("a")), run(options).out);
  expect_error(run(options + " -o " + folder.file("none/a")), 3, "No such file");
}

TEST(Compare, RefusesBadInputInOneLine) {
  const std::string compare = "compare --stages 4 --micros 4";
  expect_error(run("compare --micros 4"), 2, "--stages is required");
  expect_error(run("compare --stages 0 --micros 4"), 2, "--stages is 0; expected a number from 1");
  expect_error(run("compare --stages 5000 --micros 4"), 2, "from 1 to 4096");
  expect_error(run("compare --stages 4 --micros -1"), 2, "--micros is -1");
  expect_error(run("compare chimera --stages 4 --micros 4"), 2, "unexpected 'chimera'");
  expect_error(run(compare + " --pairs 1,x"), 2, "'x' is no number from 1 up");
  expect_error(run(compare + " --pairs 0"), 2, "'0' is no number from 1 up");
  expect_error(run(compare + " --format tabel"), 2, "did you mean 'table'?");
  expect_error(run(compare + " --recompute 1,1"), 2, "a 0 or 1 for each of the 4 stages");
  expect_error(run(compare + " --forward 1,2"), 2, "has 2 numbers");
  expect_error(run(compare + " --latency -1"), 2, "--latency is -1");
  expect_error(run(compare + " --bandwidth 10"), 2, "give both");
  expect_error(run(compare + " --reduce sometimes"), 2, "eager-opt");
}

}  // namespace
}  // namespace chimera::cli
