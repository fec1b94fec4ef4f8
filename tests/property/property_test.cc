// Properties of all schedules, checked on random ones: of every generator, and drawn freely
// (random_schedule.h). Where one fails, RapidCheck prints the smallest failing case that it finds
// and an RC_PARAMS to see it again; RC_PARAMS="max_success=20000" looks longer.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "chimera/base/error.h"
#include "chimera/schedule/lower.h"
#include "chimera/schedule/text_form.h"
#include "chimera/schedule/verify.h"
#include "chimera/simulate/simulate.h"
#include "interpret.h"
#include "random_schedule.h"

namespace chimera {
namespace {

Schedule any_schedule() {
  Schedule schedule = pick(2) == 0 ? generated_schedule() : free_schedule();
  RC_LOG() << print(schedule);
  return schedule;
}

ReducePolicy any_policy() {
  return static_cast<ReducePolicy>(pick(static_cast<int>(kReducePolicies.size())));
}

void log(const Program& program) {
  for (const Row& row : program.rows) {
    for (const Action& action : row) RC_LOG() << to_string(action) << " ";
    RC_LOG() << "\n";
  }
}

RC_GTEST_PROP(Property, LegalSchedulesAreProvedUnderEveryReducePolicy, ()) {
  const Schedule schedule = any_schedule();
  for (std::size_t policy = 0; policy < kReducePolicies.size(); ++policy) {
    const Program program = lower(schedule, static_cast<ReducePolicy>(policy));
    log(program);
    const Verdict verdict = verify(program);
    for (const Violation& violation : verdict.violations) RC_LOG() << explain(program, violation);
    RC_ASSERT(verdict.ok());
    RC_ASSERT(interpret(program) == "");
  }
}

RC_GTEST_PROP(Property, TheTextFormGivesTheScheduleBack, ()) {
  const Schedule schedule = any_schedule();
  RC_ASSERT(parse(print(schedule), "test") == schedule);
}

Costs any_costs(int stages) {
  const auto times = [stages] {
    std::vector<double> values(static_cast<std::size_t>(stages));
    std::generate(values.begin(), values.end(), [] { return pick(9); });
    return values;
  };
  Costs costs;
  costs.forward_s = times();
  costs.backward_s = times();
  costs.recompute_s = times();
  costs.reduce_s = times();
  costs.link.latency_s = pick(3);
  return costs;
}

// The longest chain of computations of one micro-batch.
double critical_path(const Schedule& schedule, const Costs& costs) {
  std::vector<double> path(static_cast<std::size_t>(schedule.micros), 0.0);
  for (const Row& row : schedule.rows) {
    for (const Action& action : row) {
      if (action.op != Op::kForward && !yields_gradient(action.op)) continue;
      for (int i = 0; i < action.span; ++i) {
        path[static_cast<std::size_t>(action.micro + i)] += costs.compute(action) / action.span;
      }
    }
  }
  return *std::max_element(path.begin(), path.end());
}

RC_GTEST_PROP(Property, SimulationTakesAtLeastTheCriticalPathAndEachWorkersWork, ()) {
  const Schedule schedule = any_schedule();
  // With sums that do not wait for each other: where they share links, one that begins early may
  // hold up another that more depends on, and to be eager may take longer.
  Costs costs = any_costs(schedule.stages());
  costs.reduces_at_once = schedule.stages();
  const auto time = [&](ReducePolicy policy) {
    const Program program = lower(schedule, policy);
    const Timeline timeline = simulate(program, costs);
    for (std::size_t worker = 0; worker < program.rows.size(); ++worker) {
      double work = 0;
      for (const Action& action : program.rows[worker]) work += costs.compute(action);
      RC_ASSERT(timeline.rows[worker].size() == program.rows[worker].size());
      RC_ASSERT(makespan(timeline) >= work - 1e-9);
    }
    RC_ASSERT(makespan(timeline) >= critical_path(schedule, costs) - 1e-9);
    return makespan(timeline);
  };
  const double at_end = time(ReducePolicy::kAtEnd);
  RC_ASSERT(time(ReducePolicy::kEager) <= at_end);
  RC_ASSERT(time(ReducePolicy::kEagerOpt) <= at_end);
}

// The heart: a damaged program that computes something else than a training step is refused,
// whatever the damage.
RC_GTEST_PROP(Property, ProgramsThatComputeSomethingElseAreRefused, ()) {
  const Schedule schedule = any_schedule();
  Program program = lower(schedule, any_policy());
  for (int times = 1 + pick(2); times > 0; --times) damage(program.rows, schedule);
  log(program);
  const std::string fault = interpret(program);
  RC_LOG() << fault << "\n";
  const Verdict verdict = verify(program);
  RC_ASSERT(fault.empty() || !verdict.ok());
  if (verdict.ok()) (void)simulate(program, any_costs(schedule.stages()));
  RC_CLASSIFY(!fault.empty(), "computes something else");
  RC_CLASSIFY(fault.empty() && !verdict.ok(), "superfluous");
  RC_CLASSIFY(verdict.ok(), "as good as before");
}

// The same with the damage in the schedule: lower takes it as it is.
RC_GTEST_PROP(Property, SchedulesThatComputeSomethingElseAreRefused, ()) {
  Schedule schedule = any_schedule();
  const Schedule whole = schedule;
  for (int times = 1 + pick(2); times > 0; --times) damage(schedule.rows, whole);
  Program program;
  try {
    program = lower(schedule, any_policy());
  } catch (const Error&) {
    return;  // ids out of range
  }
  log(program);
  const std::string fault = interpret(program);
  RC_LOG() << fault << "\n";
  RC_ASSERT(fault.empty() || !verify(program).ok());
}

}  // namespace
}  // namespace chimera
