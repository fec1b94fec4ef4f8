#include "chimera/plan/draft.h"

#include <utility>

namespace chimera {

Draft ordered(const Candidate& candidate, ReducePolicy reduce) {
  Draft draft{.candidate = candidate};
  if (!candidate.generator->asynchronous) {
    Schedule schedule = generate(candidate.generator->name, candidate.spec);
    draft.placement = std::move(schedule.placement);
    draft.rows = std::move(schedule.rows);
    return draft;
  }
  draft.steps = 2 + 2 * candidate.spec.stages / candidate.spec.micros;
  Program program = candidate_program(candidate, reduce, draft.steps);
  draft.placement = std::move(program.source.placement);
  draft.rows = std::move(program.rows);
  return draft;
}

Costs costs_of(const Candidate& candidate, const Placement& placement, const PlanRequest& request) {
  return layout_costs(request.profile, request.machine, candidate_layout(candidate, placement));
}

double least_step_s(const RowWork& work, const Candidate& candidate, const Placement& placement,
                    const PlanRequest& request) {
  return work.least_step_s(placement, costs_of(candidate, placement, request), candidate.recomputed,
                           request.barrier && !candidate.generator->asynchronous);
}

}  // namespace chimera
