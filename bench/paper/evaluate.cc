#include "bench/paper/evaluate.h"

#include <algorithm>

#include "chimera/base/check.h"
#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/plan/equation.h"
#include "chimera/schedule/lower.h"
#include "chimera/schedule/recompute.h"
#include "chimera/simulate/simulate.h"
#include "chimera/simulate/steady.h"
#include "chimera/simulate/timeline.h"

namespace chimera {
namespace {

bool asynchronous(const PaperRun& run) { return generator(run.schedule).asynchronous; }
bool halves(const PaperRun& run) { return run.method == Method::kHalving; }

Spec spec_of(const PaperRun& run) {
  Spec spec{.stages = run.stages, .micros = halves(run) ? 2 * run.micros : run.micros};
  if (generator(run.schedule).paired) {
    spec.pairs = run.pipes / 2;
    spec.method = run.method;
  }
  return spec;
}

// A forward of halving handles two of the backward's micro-batches at once, and is as fast as one
// micro-batch of that size, not as two of half of it.
Costs costs_of(const PaperRun& run, const Profile& profile, const Machine& machine) {
  Layout layout = layout_of(run, profile);
  Costs costs = layout_costs(profile, machine, layout);
  if (!halves(run)) return costs;
  std::vector<double> forward_s = std::move(costs.forward_s);
  for (double& seconds : forward_s) seconds /= 2;
  layout.sequences = run.sequences / 2;
  costs = layout_costs(profile, machine, layout);
  costs.forward_s = std::move(forward_s);
  return costs;
}

// Enough for a run to be as full as it gets.
int steps_to_fill(const PaperRun& run) { return 4 + 4 * run.stages / run.micros; }

}  // namespace

Layout layout_of(const PaperRun& run, const Profile& profile) {
  const int blocks = static_cast<int>(profile.blocks.size());
  const auto stages = static_cast<std::size_t>(run.stages);
  if (blocks % run.stages != 0) {
    throw Error(ErrorCode::kUsage, cat(blocks, " blocks cannot be cut into ", run.stages,
                                       " equal stages; choose a divisor of the blocks"));
  }
  const int each = blocks / run.stages;
  return {.placement = generate(run.schedule, spec_of(run)).placement,
          .width = run.width,
          .sequences = run.sequences,
          .split = std::vector<int>(stages, each),
          .recomputed = std::vector<int>(stages, run.recompute ? each : 0)};
}

Program program_of(const PaperRun& run, int steps) {
  Spec spec = spec_of(run);
  if (asynchronous(run)) spec.steps = steps;
  const std::vector<bool> all(static_cast<std::size_t>(run.stages), run.recompute);
  return lower(with_recompute(generate(run.schedule, spec), all));
}

double step_seconds(const PaperRun& run, const Profile& profile, const Machine& machine) {
  const Costs costs = costs_of(run, profile, machine);
  if (!asynchronous(run)) return overlapped_step_s(program_of(run), costs);
  const int steps = steps_to_fill(run);
  const auto state =
      steady_state([&](int count) { return program_of(run, count); }, costs, steps, 64 * steps);
  CHECK(state.has_value());
  return state->micro_s * run.micros;
}

double throughput(const PaperRun& run, const Profile& profile, const Machine& machine) {
  return run.batch() / step_seconds(run, profile, machine);
}

double equation_throughput(const PaperRun& run, const Profile& profile, const Machine& machine) {
  return run.batch() / equation_one(program_of(run), costs_of(run, profile, machine)).seconds;
}

Peaks peaks(const PaperRun& run, const Profile& profile, const Machine& machine) {
  const Program program = program_of(run, asynchronous(run) ? steps_to_fill(run) : 1);
  const Timeline timeline = simulate(program, costs_of(run, profile, machine));
  std::vector<double> bytes =
      worker_peaks(program, timeline, layout_memory(profile, layout_of(run, profile)));
  for (double& held : bytes) held += machine.reserved_bytes;
  const auto [least, most] = std::minmax_element(bytes.begin(), bytes.end());
  return {.most = *most, .least = *least};
}

double equal_bubble_ratio(const PaperRun& run) {
  if (asynchronous(run)) return 0;
  PaperRun plain = run;
  plain.recompute = false;
  return bubble_ratio(simulate(program_of(plain), Costs::uniform(run.stages, 1, 1)));
}

}  // namespace chimera
