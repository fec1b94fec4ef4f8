#include "chimera/plan/equation.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "chimera/generate/generate.h"
#include "chimera/schedule/lower.h"
#include "chimera/simulate/simulate.h"
#include "chimera/simulate/steady.h"

namespace chimera {
namespace {

Program program(const char* name, const Spec& spec) { return lower(generate(name, spec)); }

// Section 3.4's example is D = 6: C_f = 6, C_b = 10.
TEST(EquationOne, CountsThePapersCriticalPaths) {
  for (const int d : {2, 4, 6, 8, 16}) {
    const CriticalPath unit = critical_path(program("chimera", {.stages = d, .micros = d}));
    EXPECT_NEAR(unit.forwards, d, 1e-9) << d;
    EXPECT_NEAR(unit.backwards, 2 * d - 2, 1e-9) << d;
    for (const char* name : {"gpipe", "1f1b"}) {
      const CriticalPath path = critical_path(program(name, {.stages = d, .micros = 2 * d}));
      EXPECT_NEAR(path.forwards, 3 * d - 1, 1e-9) << name << " " << d;
      EXPECT_NEAR(path.backwards, 3 * d - 1, 1e-9) << name << " " << d;
    }
  }
  // Direct concatenation of K units: C_f = D + 2 (K - 1), C_b = K (2D - 2).
  for (const int k : {2, 3, 4}) {
    const CriticalPath path = critical_path(program("chimera", {.stages = 4, .micros = 4 * k}));
    EXPECT_NEAR(path.forwards, 4 + 2 * (k - 1), 1e-9) << k;
    EXPECT_NEAR(path.backwards, 6 * k, 1e-9) << k;
  }
}

Costs costs_of(int stages) {
  Costs costs = Costs::uniform(stages, 1, 2);
  costs.boundary_bytes.assign(static_cast<std::size_t>(stages - 1), 1);
  costs.link = {0.05, 20};
  return costs;
}

TEST(EquationOne, IsTheSimulatorWhereStagesAndLinksAreAlike) {
  for (const char* name : {"gpipe", "1f1b", "chimera"}) {
    for (const int d : {2, 4, 8}) {
      const Program step = program(name, {.stages = d, .micros = d});
      Costs costs = Costs::uniform(d, 1, 2);
      EXPECT_NEAR(equation_one(step, costs).seconds, makespan(simulate(step, costs)), 1e-9);
      costs = costs_of(d);
      const double exact = makespan(simulate(step, costs));
      EXPECT_NEAR(equation_one(step, costs).seconds, exact, 0.1 * exact) << name << " " << d;
    }
  }
}

// Worker 0 of D = 4: stage 3 is complete at 10, the worker ends at 16 and begins the next step at
// once; on workers 1 and 2 a stage is complete at 12, they end at 14 and begin again at 17.
TEST(EquationOne, SharesIdleRegionsBetweenTheSumsOfAWorker) {
  const Program step = program("chimera", {.stages = 4, .micros = 4});
  Costs costs = Costs::uniform(4, 1, 2);
  const auto unoverlapped = [&](double seconds) {
    costs.reduce_s.assign(4, seconds);
    return equation_one(step, costs).unoverlapped_s;
  };
  for (const double a : {0.5, 2.0, 7.0, 12.0}) {
    const auto left = [a](double ab, double c) {
      return std::max(0.0, std::max(0.0, a - ab) + a - c);
    };
    EXPECT_NEAR(unoverlapped(a), std::max(left(16 - 10, 0), left(14 - 12, 17 - 14)), 1e-9) << a;
  }
}

TEST(EquationOne, UnoverlappedIsWhatTheSimulatorAdds) {
  const Program step = program("chimera", {.stages = 8, .micros = 8});
  Costs costs = Costs::uniform(8, 1, 2);
  const double without = overlapped_step_s(step, costs);
  costs.reduce_s.assign(8, 5);
  const double exact = overlapped_step_s(step, costs) - without;
  EXPECT_NEAR(equation_one(step, costs).unoverlapped_s, exact, 1.0);
  EXPECT_GT(exact, 0);
}

TEST(SteadySteps, OverlapNoWorseThanDrainedOnes) {
  for (const char* name : {"gpipe", "1f1b", "gems", "chimera"}) {
    const Program step = program(name, {.stages = 4, .micros = 8});
    Costs costs = costs_of(4);
    costs.reduce_s.assign(4, 3);
    EXPECT_LE(overlapped_step_s(step, costs), makespan(simulate(step, costs)) + 1e-9) << name;
  }
}

}  // namespace
}  // namespace chimera
