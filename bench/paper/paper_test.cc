// What of the paper we hold to: exact counts, and its figures within stated tolerances. A change of
// the simulator that breaks the reproduction fails here.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "bench/paper/figures.h"
#include "chimera/base/file.h"
#include "chimera/base/text.h"
#include "chimera/schedule/lower.h"
#include "chimera/simulate/simulate.h"
#include "chimera/simulate/timeline.h"

namespace chimera {
namespace {

constexpr const char* kFolder = "bench/paper";

const Models& models() {
  static const Models all = load_models(kFolder);
  return all;
}

std::vector<FigurePoint> points(const std::string& figure, const std::string& quantity) {
  std::vector<FigurePoint> found;
  for (FigurePoint& point : parse_figures(read_file(cat(kFolder, "/figures.csv")))) {
    if (point.figure == figure && point.quantity == quantity) found.push_back(std::move(point));
  }
  return found;
}

double ours(const FigurePoint& point) {
  return std::strtod(simulated(point, models(), preset("piz-daint")).c_str(), nullptr);
}
double papers(const FigurePoint& point) { return std::strtod(point.paper.c_str(), nullptr); }
double error(const FigurePoint& point) { return std::abs(ours(point) / papers(point) - 1); }

TEST(PaperCounts, TheModelsHaveAsManyParametersAsTheAuthors) {
  EXPECT_EQ(models().bert48.kind("embedding").parameters, 31'782'912);
  EXPECT_EQ(models().bert48.kind("block").parameters, 12'596'224);
  EXPECT_EQ(models().bert48.kind("head").parameters, 33'388'348);
  EXPECT_EQ(models().bert48.parameters(), 669'790'012);
  EXPECT_EQ(models().gpt2.kind("embedding").parameters, 65'639'680);
  EXPECT_EQ(models().gpt2.kind("block").parameters, 19'677'440);
  EXPECT_EQ(models().gpt2.kind("head").parameters, 64'331'520);
  EXPECT_EQ(models().gpt2.parameters(), 1'389'327'360);
}

TEST(PaperCounts, TheFirstStagesGradientHasAsManyWordsAsInTheAuthorsBenchmark) {
  const auto words = [](const Profile& profile, int stages) {
    const PaperRun run{.schedule = "chimera", .stages = stages, .pipes = 2, .micros = stages};
    return gradient_bytes(profile, layout_of(run, profile)).front() / 4;
  };
  EXPECT_EQ(words(models().bert48, 16), 69'571'584);
  EXPECT_EQ(words(models().bert48, 8), 107'360'256);
  EXPECT_EQ(words(models().bert48, 4), 182'937'600);
  EXPECT_EQ(words(models().bert48, 2), 334'092'288);
  EXPECT_EQ(words(models().gpt2, 64), 85'317'120);
  EXPECT_EQ(words(models().gpt2, 32), 104'994'560);
  EXPECT_EQ(words(models().gpt2, 16), 144'349'440);
  EXPECT_EQ(words(models().gpt2, 8), 223'059'200);
}

TEST(PaperCounts, MessagesHaveAsManyWordsAsInTheAuthorsBenchmark) {
  EXPECT_EQ(models().bert48.kind("block").at(8).output_bytes / 4, 1'049'600);
  EXPECT_EQ(models().gpt2.kind("block").at(1).output_bytes / 4, 808'960);
}

TEST(PaperComputation, DoublingGainsOverGPipeWithRecomputeWhatThePaperMeasured) {
  const auto seconds = [](const std::string& schedule, int micros) {
    Spec spec{.stages = 8, .micros = micros};
    if (schedule == "chimera") spec.method = Method::kDoubling;
    return makespan(simulate(lower(generate(schedule, spec)), Costs::uniform(8, 1, 3)));
  };
  const double at_16 = seconds("gpipe", 16) / seconds("chimera", 16);
  const double at_32 = seconds("gpipe", 32) / seconds("chimera", 32);
  EXPECT_NEAR(at_16, 1.211, 0.001);
  EXPECT_NEAR(at_32, 1.068, 0.001);
  EXPECT_NEAR(at_16, 1.200, 0.02);  // measured, figure 18
  EXPECT_NEAR(at_32, 1.053, 0.02);
}

TEST(PaperComputation, BubblesOfFigureOneAreThoseOfEqualStages) {
  for (const FigurePoint& point : points("1", "bubble_percent")) {
    EXPECT_NEAR(ours(point), papers(point), 2) << point.scheme;
  }
}

// Figures 14 and 15 on the largest machine of each, which no constant was fitted to.
std::vector<FigurePoint> largest(const std::string& figure) {
  std::vector<FigurePoint> found = points(figure, "throughput");
  const int nodes = std::max_element(found.begin(), found.end(), [](const auto& a, const auto& b) {
                      return a.nodes < b.nodes;
                    })->nodes;
  std::erase_if(found, [&](const FigurePoint& point) { return point.nodes != nodes; });
  return found;
}

int within(const std::string& figure, double tolerance) {
  const std::vector<FigurePoint> found = largest(figure);
  return static_cast<int>(std::count_if(found.begin(), found.end(), [&](const FigurePoint& point) {
    return error(point) <= tolerance;
  }));
}

TEST(PaperThroughput, OfTheLargestMachineFollowsFromTheSmallerOnes) {
  for (const char* figure : {"14", "15"}) {
    for (const FigurePoint& point : largest(figure)) EXPECT_NE(point.use, "fitted");
    EXPECT_EQ(within(figure, 0.10), 5) << figure;
    EXPECT_EQ(within(figure, 0.13), 6) << figure;
  }
}

// "fast > slow" of the schemes that the paper measured at least 5 % apart and we order otherwise.
std::vector<std::string> misordered(const std::vector<FigurePoint>& points) {
  constexpr double kApart = 1.05;
  std::vector<std::string> found;
  for (const FigurePoint& fast : points) {
    for (const FigurePoint& slow : points) {
      if (papers(fast) < kApart * papers(slow) || ours(fast) > ours(slow)) continue;
      found.push_back(cat(fast.scheme, " > ", slow.scheme));
    }
  }
  return found;
}

// A change for the better fails, too: take the pair out, here and in docs/results/paper.md.
TEST(PaperThroughput, OrdersTheSchemesAsThePaperDoesOnTheLargestMachineButForOnePair) {
  EXPECT_EQ(misordered(largest("14")), std::vector<std::string>{"PipeDream > GEMS"});
  EXPECT_EQ(misordered(largest("15")), std::vector<std::string>{});
}

TEST(PaperThroughput, OfChimeraIsWithinNinePercentForBertAndSixForGpt2) {
  for (const auto& [figure, tolerance] : {std::pair{"14", 0.09}, std::pair{"15", 0.06}}) {
    for (const FigurePoint& point : points(figure, "throughput")) {
      if (point.scheme != "Chimera") continue;
      EXPECT_LT(error(point), tolerance) << point.nodes;
    }
  }
}

// D of the fastest layout of figure 13, by model.
std::map<std::string, int> best_layouts(const std::string& quantity) {
  std::map<std::string, std::pair<double, int>> best;
  for (const FigurePoint& point : points("13", quantity)) {
    best[point.model] = std::max(best[point.model], {ours(point), point.run.stages});
  }
  std::map<std::string, int> stages;
  for (const auto& [model, found] : best) stages[model] = found.second;
  return stages;
}

TEST(PaperLayouts, TheBestOfFigureThirteenIsThePapersChoice) {
  EXPECT_EQ(best_layouts("throughput"), (std::map<std::string, int>{{"bert48", 4}, {"gpt2", 32}}));
}

// It takes every stage for as long as the last, which has the head.
TEST(PaperLayouts, EquationOneChoosesFewerStagesWhereTheyAreUnequal) {
  EXPECT_EQ(best_layouts("equation"), (std::map<std::string, int>{{"bert48", 4}, {"gpt2", 8}}));
}

TEST(PaperLayouts, TheBestNumberOfPipesOfFigureNineteenIsThePapers) {
  std::map<int, std::pair<double, int>> best;  // by D: throughput and pipes
  for (const FigurePoint& point : points("19", "throughput")) {
    auto& known = best[point.run.stages];
    known = std::max(known, {ours(point), point.run.pipes});
  }
  EXPECT_EQ(best[32].second, 4);
  EXPECT_EQ(best[16].second, 2);
}

TEST(PaperMemory, OfFigureNineIsWithinThreePercentWhereFittedAndForChimera) {
  for (const FigurePoint& point : points("9", "peak_gb")) {
    if (point.use != "fitted" && point.scheme != "Chimera") continue;
    EXPECT_LT(error(point), 0.03) << point.scheme << point.model;
  }
  for (const FigurePoint& point : points("9", "least_gb")) {
    if (point.scheme != "Chimera") continue;
    EXPECT_LT(error(point), 0.042) << point.model;
  }
}

TEST(PaperMemory, ChimerasPeakIsBelowDapplesWhereThePaperMeasuredItSo) {
  std::map<std::string, FigurePoint> chimera;  // by the run's model, D and B
  int below = 0;
  for (const FigurePoint& point : points("9", "peak_gb")) {
    const std::string key = cat(point.model, ' ', point.run.stages, ' ', point.run.sequences);
    if (point.scheme == "Chimera") chimera[key] = point;
    if (point.scheme != "DAPPLE") continue;
    const FigurePoint& other = chimera.at(key);
    EXPECT_EQ(ours(other) < ours(point), papers(other) < papers(point)) << key;
    below += static_cast<int>(papers(other) < papers(point));
  }
  EXPECT_EQ(below, 4);
}

TEST(PaperMemory, WhatFitsIsWhatDidButForTwoNearTheLimit) {
  const auto differ = [](const char* figure) {
    int count = 0;
    for (const FigurePoint& point : points(figure, "peak_gb")) {
      const bool fits = simulated(point, models(), preset("piz-daint")) != "oom";
      if (fits != (point.paper != "oom")) ++count;
    }
    return count;
  };
  EXPECT_EQ(differ("1"), 0);
  EXPECT_LE(differ("9"), 2);
}

}  // namespace
}  // namespace chimera
