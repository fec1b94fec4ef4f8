#include "chimera/simulate/measure.h"

#include "chimera/simulate/simulate.h"

namespace chimera {

Costs measured_costs(const Timeline& timeline, int stages) {
  Costs costs = Costs::uniform(stages, 0, 0);
  std::vector<int> forwards(static_cast<std::size_t>(stages)), backwards(forwards);
  std::vector<int> recomputes(forwards);
  costs.recompute_s.assign(static_cast<std::size_t>(stages), 0);
  for (const auto& row : timeline.rows) {
    for (const Interval& interval : row) {
      const auto stage = static_cast<std::size_t>(interval.action.stage);
      const double seconds = interval.end_s - interval.start_s;
      if (interval.action.op == Op::kForward) {
        costs.forward_s[stage] += seconds;
        forwards[stage] += interval.action.span;
      } else if (interval.action.op == Op::kBackward) {
        costs.backward_s[stage] += seconds;
        backwards[stage] += interval.action.span;
      } else if (interval.action.op == Op::kRecompute) {
        costs.recompute_s[stage] += seconds;
        recomputes[stage] += interval.action.span;
      }
    }
  }
  for (std::size_t stage = 0; stage < forwards.size(); ++stage) {
    if (forwards[stage] > 0) costs.forward_s[stage] /= forwards[stage];
    if (backwards[stage] > 0) costs.backward_s[stage] /= backwards[stage];
    if (recomputes[stage] > 0) costs.recompute_s[stage] /= recomputes[stage];
  }
  return costs;
}

Timeline predicted(const Program& program, const Timeline& measured) {
  return simulate(program, measured_costs(measured, program.source.stages()));
}

double step_bubble_ratio(const Timeline& step, bool asynchronous) {
  if (!asynchronous) return bubble_ratio(compute_part(step));
  double computing = 0, whole = 0;
  for (std::size_t worker = 0; worker < step.rows.size(); ++worker) {
    const auto& row = step.rows[worker];
    if (row.empty()) continue;
    computing += busy(step, static_cast<int>(worker));
    whole += row.back().end_s - row.front().start_s;
  }
  return whole > 0 ? (whole - computing) / whole : 0;
}

Timeline middle_step(const Timeline& run, int micros_per_step) {
  int steps = 0;
  for (const Interval& interval : run.rows.front()) {
    if (interval.action.op == Op::kStep) steps = interval.action.micro / micros_per_step + 1;
  }
  Timeline part;
  for (const auto& row : run.rows) {
    auto& kept = part.rows.emplace_back();
    int step = 0;
    for (const Interval& interval : row) {
      if (step == steps / 2) kept.push_back(interval);
      if (interval.action.op == Op::kStep) {
        step = (interval.action.micro + 1) / micros_per_step;
      }
    }
  }
  return part;
}

}  // namespace chimera
