// GPipe (Huang et al., NeurIPS 2019): all N forwards, then all N backwards, in the same order.
//
//   P0  F0 F1 F2 F3 .  .  .  .  .  .  B0 B1 B2 B3      D = 4, N = 4, equal slots
//   P1  .  F0 F1 F2 F3 .  .  .  .  B0 B1 B2 B3 .
//   P2  .  .  F0 F1 F2 F3 .  .  B0 B1 B2 B3 .  .
//   P3  .  .  .  F0 F1 F2 F3 B0 B1 B2 B3 .  .  .
//
// 2(D-1) slots of bubble a worker, whatever N; every worker stashes all N micro-batches.
// Tests: paper_formulas_test.cc (length, stash), golden/.
#include "chimera/generate/generators.h"

namespace chimera {

Schedule make_gpipe(const Spec& spec) {
  Schedule schedule{.name = "gpipe",
                    .micros = spec.micros,
                    .placement = Placement::linear(spec.stages),
                    .rows = {}};
  for (int stage = 0; stage < spec.stages; ++stage) {
    Row row;
    for (const Op op : {Op::kForward, Op::kBackward}) {
      for (int micro = 0; micro < spec.micros; ++micro) {
        row.push_back(compute_action(op, stage, micro));
      }
    }
    schedule.rows.push_back(std::move(row));
  }
  return schedule;
}

}  // namespace chimera
