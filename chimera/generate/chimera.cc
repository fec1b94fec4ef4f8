// Chimera (Li and Hoefler, SC 2021): 2f pipes over the same D workers, f of them ascending ("down")
// and f descending ("up"), merged so that each fills the others' bubbles.
//
//   P0  F0 .  F1 f2 b2 f3 b3 B0 .  B1      D = 4, N = 4, f = 1, equal slots; the up pipe in small
//   P1  .  F0 f2 F1 f3 b2 B0 b3 B1 .       letters
//   P2  .  f2 F0 f3 F1 B0 b2 B1 b3 .
//   P3  f2 .  f3 F0 B0 F1 B1 b2 .  b3
//
// The rule (section 3.1). A base unit is D micro-batches, M = D/(2f) in each pipe. Each pipe runs
// 1F1B from slot 0: micro-batch j of the pipe has
//
//     F(j, s) in slot s + 2j,        B(j, s) in slot 2D - 1 - s + 2j.
//
// No two pipes ask for the same slot of a worker: opposite directions meet in slots of other parity,
// pipes of one direction are D/f workers apart and use windows of 2M slots that do not overlap.
// The order of a worker's row is the order of its slots; real durations come later.
//
// N > D (section 3.5, direct concatenation): a worker does 2D actions a unit, and its slots modulo
// 2D are all different, so unit k starts at slot 2Dk and the first forwards of a unit fall exactly
// into the bubbles that the tail of the unit before leaves. A rest of N mod D micro-batches is a
// last unit with fewer micro-batches in each pipe, spread as evenly as possible (section 3.1 for
// N < D); its slots are some of a full unit's, so they do not collide either.
//
// Cost: 2N + D/f - 2 slots for N = kD; stash [D - D/(2f) + 1, D] for N = D.
// Tests: generate_test.cc compares with the drawn schedules of Figures 3 and 6-8, the closed form
// for f = 1, and the formulas for all D <= 32; tests/golden.
#include <algorithm>
#include <vector>

#include "chimera/base/check.h"
#include "chimera/generate/generators.h"

namespace chimera {
namespace {

struct Slotted {
  int slot;
  Action action;
};

// How many of a unit's micro-batches each pipe takes: as even as possible, the first ones to
// pipes of alternating direction. A full unit gives D/(2f) to each.
std::vector<int> shares(int micros, int pairs) {
  std::vector<int> share(static_cast<std::size_t>(2 * pairs), micros / (2 * pairs));
  const int rest = micros % (2 * pairs);
  for (int i = 0; i < rest; ++i) {
    const int pipe = i / 2 + (i % 2 == 0 ? 0 : pairs);
    ++share[static_cast<std::size_t>(pipe)];
  }
  return share;
}

// Appends the actions of one unit of `micros` <= D micro-batches, numbered from `first` through the
// pipes in turn, each with its slot counted from `start`.
void add_unit(const Placement& placement, int pairs, int first, int micros, int start,
              std::vector<std::vector<Slotted>>& rows) {
  const int stages = placement.stages();
  const std::vector<int> share = shares(micros, pairs);
  int micro = first;
  for (int pipe = 0; pipe < placement.pipes(); ++pipe) {
    for (int j = 0; j < share[static_cast<std::size_t>(pipe)]; ++j, ++micro) {
      for (int stage = 0; stage < stages; ++stage) {
        auto& row = rows[static_cast<std::size_t>(placement.worker(pipe, stage))];
        row.push_back({start + stage + 2 * j, compute_action(Op::kForward, stage, micro, pipe)});
        row.push_back({start + 2 * stages - 1 - stage + 2 * j,
                       compute_action(Op::kBackward, stage, micro, pipe)});
      }
    }
  }
}

Row in_slot_order(std::vector<Slotted> slotted) {
  std::sort(slotted.begin(), slotted.end(),
            [](const Slotted& a, const Slotted& b) { return a.slot < b.slot; });
  Row row;
  for (std::size_t i = 0; i < slotted.size(); ++i) {
    CHECK(i == 0 || slotted[i - 1].slot != slotted[i].slot);
    row.push_back(slotted[i].action);
  }
  return row;
}

}  // namespace

Schedule make_chimera(const Spec& spec) {
  const int pairs = spec.pairs.value_or(1);
  Schedule schedule{.name = "chimera",
                    .micros = spec.micros,
                    .placement = Placement::bidirectional(spec.stages, pairs),
                    .rows = {}};
  std::vector<std::vector<Slotted>> rows(static_cast<std::size_t>(spec.stages));
  for (int first = 0; first < spec.micros; first += spec.stages) {
    const int micros = std::min(spec.stages, spec.micros - first);
    add_unit(schedule.placement, pairs, first, micros, 2 * first, rows);
  }
  for (auto& row : rows) schedule.rows.push_back(in_slot_order(std::move(row)));
  return schedule;
}

}  // namespace chimera
