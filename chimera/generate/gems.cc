// GEMS (Jain et al., SC 2020): two copies of the model in opposite directions, so that the forward
// of a micro-batch can follow the backward of the one before from worker to worker.
//
//   P0  F0 .  .  .  .  .  .  .  .  .  B0=== f1 b1=== .  .  .     D = 4, backward twice a forward;
//   P1  .  F0 .  .  .  .  .  .  B0=== f1 .  .  .  b1=== .        the up pipe in small letters
//   P2  .  .  F0 .  .  .  B0=== f1 .  .  .  .  .  .  b1===
//   P3  .  .  .  F0 B0=== f1 .  .  .  .  .  .  .  .  .  .  b1===
//
// Rule: micro-batches take the down and the up pipe in turn; each worker does forward and backward
// of one, then of the next. So a worker holds the activations of one micro-batch, ever, and two
// micro-batches are in flight: one that goes back, and behind it, on the memory that it frees, the
// next. The price: backwards follow each other, and so
//
//   T = D F + N D B + (N - 1) F        (bubble ratio about (D-1)/(D+1/2) at B = 2F)
//
// Tests: paper_formulas_test.cc (length, stash), golden/.
#include "chimera/generate/generators.h"

namespace chimera {

Schedule make_gems(const Spec& spec) {
  Placement placement = Placement::opposite(spec.stages);
  Schedule schedule{
      .name = "gems", .micros = spec.micros, .placement = std::move(placement), .rows = {}};
  schedule.rows.resize(static_cast<std::size_t>(spec.stages));
  for (int micro = 0; micro < spec.micros; ++micro) {
    const int pipe = micro % 2;
    for (int stage = 0; stage < spec.stages; ++stage) {
      Row& row = schedule.rows[static_cast<std::size_t>(schedule.placement.worker(pipe, stage))];
      row.push_back(compute_action(Op::kForward, stage, micro, pipe));
      row.push_back(compute_action(Op::kBackward, stage, micro, pipe));
    }
  }
  return schedule;
}

}  // namespace chimera
