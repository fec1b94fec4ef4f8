// From a candidate to what the simulator says of it.
#include <algorithm>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/plan/plan.h"
#include "chimera/schedule/recompute.h"
#include "chimera/simulate/simulate.h"
#include "chimera/simulate/steady.h"

namespace chimera {
namespace {

Program lowered(Schedule schedule, const Candidate& candidate, ReducePolicy reduce) {
  std::vector<bool> again;
  for (const int blocks : candidate.recomputed) again.push_back(blocks > 0);
  again.resize(static_cast<std::size_t>(candidate.spec.stages), false);  // before it is chosen
  return lower(with_recompute(std::move(schedule), again), reduce);
}

void add_busy(const Timeline& timeline, int steps, Prediction& prediction) {
  for (std::size_t worker = 0; worker < timeline.rows.size(); ++worker) {
    prediction.busy_s =
        std::max(prediction.busy_s, busy(timeline, static_cast<int>(worker)) / steps);
  }
}

Prediction of_step(const Candidate& candidate, const PlanRequest& request) {
  const Program program = candidate_program(candidate, request.reduce, 1);
  const Layout layout = candidate_layout(candidate, program.source.placement);
  const Costs costs = layout_costs(request.profile, request.machine, layout);
  const Timeline timeline = simulate(program, costs);
  Prediction prediction;
  prediction.step_s = request.barrier ? makespan(timeline) : overlapped_step_s(program, costs);
  prediction.bubble_ratio = idle_ratio(timeline, 1, prediction.step_s);
  prediction.limit_bytes = planned_limits(request.machine, layout);
  add_busy(timeline, 1, prediction);
  prediction.peak_bytes = worker_peaks(program, timeline, layout_memory(request.profile, layout));
  return prediction;
}

Prediction of_steady_state(const Candidate& candidate, const PlanRequest& request) {
  const int stages = candidate.spec.stages, micros = candidate.spec.micros;
  const auto make = [&](int steps) { return candidate_program(candidate, request.reduce, steps); };
  const Program one = make(1);
  const Layout layout = candidate_layout(candidate, one.source.placement);
  const Costs costs = layout_costs(request.profile, request.machine, layout);
  // Long enough to fill the pipeline a few times; a period that does not show in sixteen times as
  // long is taken for none.
  const std::int64_t first = 2 + 3 * stages / micros;
  const auto state = steady_state(make, costs, first,
                                  std::min<std::int64_t>(16 * first, kMaxCells / stages / micros));
  if (!state) {
    throw Error(ErrorCode::kUsage, "its steps take no steady time within what can be simulated");
  }
  Prediction prediction;
  prediction.step_s = state->micro_s * micros;
  prediction.bubble_ratio = idle_ratio(state->timeline, state->steps, prediction.step_s);
  prediction.limit_bytes = planned_limits(request.machine, layout);
  add_busy(state->timeline, state->steps, prediction);
  prediction.peak_bytes =
      worker_peaks(state->program, state->timeline, layout_memory(request.profile, layout));
  return prediction;
}

}  // namespace

Program candidate_program(const Candidate& candidate, ReducePolicy reduce, int steps) {
  Spec spec = candidate.spec;
  if (candidate.generator->asynchronous) spec.steps = steps;
  return lowered(generate(candidate.generator->name, spec), candidate, reduce);
}

Layout candidate_layout(const Candidate& candidate, const Placement& placement) {
  return {.placement = placement,
          .width = candidate.width,
          .sequences = candidate.micro_batch,
          .split = candidate.split,
          .recomputed = candidate.recomputed};
}

std::vector<double> planned_limits(const Machine& machine, const Layout& layout) {
  std::vector<double> limits = layout_limits(machine, layout);
  for (double& bytes : limits) bytes *= kPlannedMemory;
  return limits;
}

Prediction predict(const Candidate& candidate, const PlanRequest& request) {
  Prediction prediction = candidate.generator->asynchronous ? of_steady_state(candidate, request)
                                                            : of_step(candidate, request);
  prediction.throughput = request.batch / prediction.step_s;
  return prediction;
}

std::string describe(const Candidate& candidate) {
  std::string text;
  const Spec& spec = candidate.spec;
  if (candidate.generator != nullptr) {
    text += name_with_method(*candidate.generator, spec);
    if (spec.pairs.value_or(1) > 1) text += cat(" f=", *spec.pairs);
    text += ", ";
  }
  text += cat("D=", spec.stages, " W=", candidate.width);
  if (spec.micros > 0 || candidate.generator != nullptr) text += cat(" B=", candidate.micro_batch);
  return text;
}

}  // namespace chimera
