// 1F1B with a flush (DAPPLE, Fan et al., PPoPP 2021): after a warm-up of D-1-s forwards, stage s
// alternates one forward and one backward, so that it never stashes more than D - s micro-batches.
//
//   P0  F0 F1 F2 F3 .  .  .  B0 .  B1 .  B2 .  B3      D = 4, N = 4, equal slots
//   P1  .  F0 F1 F2 .  .  B0 F3 B1 .  B2 .  B3 .
//   P2  .  .  F0 F1 .  B0 F2 B1 F3 B2 .  B3 .  .
//   P3  .  .  .  F0 B0 F1 B1 F2 B2 F3 B3 .  .  .
//
// The same 2(D-1) slots of bubble as GPipe; stash [min(N, 1), min(N, D)].
// Tests: paper_formulas_test.cc (length, stash), golden/.
#include <algorithm>

#include "chimera/generate/generators.h"

namespace chimera {

Schedule make_one_f_one_b(const Spec& spec) {
  Schedule schedule{.name = "1f1b",
                    .micros = spec.micros,
                    .placement = Placement::linear(spec.stages),
                    .rows = {}};
  for (int stage = 0; stage < spec.stages; ++stage) {
    const int warm_up = std::min(spec.micros, spec.stages - 1 - stage);
    Row row;
    for (int micro = 0; micro < warm_up; ++micro) {
      row.push_back(compute_action(Op::kForward, stage, micro));
    }
    for (int micro = 0; micro < spec.micros; ++micro) {
      if (micro + warm_up < spec.micros) {
        row.push_back(compute_action(Op::kForward, stage, micro + warm_up));
      }
      row.push_back(compute_action(Op::kBackward, stage, micro));
    }
    schedule.rows.push_back(std::move(row));
  }
  return schedule;
}

}  // namespace chimera
