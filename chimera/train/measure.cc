#include "chimera/train/measure.h"

#include "chimera/simulate/simulate.h"

namespace chimera {

Costs measured_costs(const Timeline& timeline, int stages) {
  Costs costs = Costs::uniform(stages, 0, 0);
  std::vector<int> forwards(static_cast<std::size_t>(stages)), backwards(forwards);
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
      }
    }
  }
  for (std::size_t stage = 0; stage < forwards.size(); ++stage) {
    if (forwards[stage] > 0) costs.forward_s[stage] /= forwards[stage];
    if (backwards[stage] > 0) costs.backward_s[stage] /= backwards[stage];
  }
  return costs;
}

Timeline predicted(const Program& program, const Timeline& measured) {
  return compute_part(simulate(program, measured_costs(measured, program.source.stages())));
}

}  // namespace chimera
