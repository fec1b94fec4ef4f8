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
// No two pipes ask for the same slot of a worker: opposite directions meet in slots of other
// parity, pipes of one direction are D/f workers apart and use windows of 2M slots that do not
// overlap. The order of a worker's row is the order of its slots; real durations come later.
//
// N > D (section 3.5), three methods; each makes units and joins them so that the first forwards of
// a unit fall into the bubbles that the tail of the unit before leaves.
//
//   direct     units of D. A worker does 2D actions a unit, and its slots modulo 2D are all
//              different, so unit k starts at slot 2Dk.
//   doubling   units of 2D, forwards in pairs: a pair counts as one slot, since a backward costs
//              twice a forward (more with recompute). F(j, s) is pair j, B(j, s) stays in slot
//              2D - 1 - s + 2j with twice as many j, 3D slots a unit. The pair is two actions in a
//              row (Figure 7 (d)), so that the next stage can start with the first, or, fused, one
//              action of two micro-batches (7 (c)). A rest of up to D micro-batches is a direct
//              unit.
//   halving    the order of fused doubling, but what counts as a micro-batch is what a backward
//              handles; a forward takes two of them at once.
//
// A unit with fewer micro-batches has fewer in each pipe, as even as possible (section 3.1 for
// N < D); its slots are some of a full unit's. In doubling with f > 1 the backwards of pipes of one
// direction ask for the same slots; any order of them is right, since what an action needs is in an
// earlier slot, and the lower micro-batch goes first. Two actions in one slot, as the split pairs,
// cross two messages of a neighbour, so a channel must hold one (capacity.h); other orders need
// none.
//
// Cost, direct: 2N + D/f - 2 slots for N = kD; stash [D - D/(2f) + 1, D] for N = D. With B = 2F and
// f = 1: direct D F + (2D-2) B and (4D-2) F for each further unit; doubling idles (D/2-1)(F+B),
// halving D-2 forwards of one micro-batch pair, whatever the number of units.
// Tests: paper_figures_test.cc compares with the drawn schedules of Figures 6 to 8 and with the
// closed forms for f = 1, paper_formulas_test.cc with the formulas for all D <= 32; tests/golden.
#include <algorithm>
#include <vector>

#include "chimera/generate/generators.h"

namespace chimera {
namespace {

struct Slotted {
  int slot;
  Action action;
};

// A run of micro-batches that share a slot grid.
struct Unit {
  int first, micros;
  int start;  // slot
  bool pairs_forwards;
};

// How many of `items` each pipe takes: as even as possible, the first ones to pipes of alternating
// direction.
std::vector<int> shares(int items, int pairs) {
  std::vector<int> share(static_cast<std::size_t>(2 * pairs), items / (2 * pairs));
  const int rest = items % (2 * pairs);
  for (int i = 0; i < rest; ++i) {
    const int pipe = i / 2 + (i % 2 == 0 ? 0 : pairs);
    ++share[static_cast<std::size_t>(pipe)];
  }
  return share;
}

// How many micro-batches of the unit each pipe takes.
std::vector<int> micros_of_pipes(const Unit& unit, int pairs) {
  if (!unit.pairs_forwards) return shares(unit.micros, pairs);
  std::vector<int> micros = shares((unit.micros + 1) / 2, pairs);
  for (int& count : micros) count *= 2;
  if (unit.micros % 2 == 1) {
    // The last pair has one micro-batch.
    --*std::find_if(micros.rbegin(), micros.rend(), [](int count) { return count > 0; });
  }
  return micros;
}

class Grid {
 public:
  Grid(const Spec& spec, Placement placement)
      : pairs_(spec.pairs.value_or(1)),
        fused_(spec.fused || spec.method == Method::kHalving),
        placement_(std::move(placement)),
        rows_(static_cast<std::size_t>(spec.stages)) {}

  // Numbers the unit's micro-batches through the pipes in turn.
  void add(const Unit& unit) {
    const std::vector<int> micros = micros_of_pipes(unit, pairs_);
    int first = unit.first;
    for (int pipe = 0; pipe < placement_.pipes(); ++pipe) {
      const int count = micros[static_cast<std::size_t>(pipe)];
      for (int j = 0; j < count; ++j) add_backwards(unit, pipe, first, j);
      const int step = unit.pairs_forwards ? 2 : 1;
      for (int j = 0; j * step < count; ++j) {
        add_forwards(unit, pipe, first + j * step, std::min(step, count - j * step), j);
      }
      first += count;
    }
  }

  // Each worker's actions in the order of their slots.
  [[nodiscard]] Rows rows() && {
    Rows rows;
    for (auto& slotted : rows_) {
      std::sort(slotted.begin(), slotted.end(), [](const Slotted& a, const Slotted& b) {
        return a.slot != b.slot ? a.slot < b.slot : a.action.micro < b.action.micro;
      });
      Row& row = rows.emplace_back();
      for (const Slotted& entry : slotted) row.push_back(entry.action);
    }
    return rows;
  }

 private:
  void put(int slot, const Action& action) {
    const int worker = placement_.worker(action.pipe, action.stage);
    rows_[static_cast<std::size_t>(worker)].push_back({slot, action});
  }

  void add_forwards(const Unit& unit, int pipe, int first, int count, int j) {
    for (int stage = 0; stage < placement_.stages(); ++stage) {
      const int slot = unit.start + stage + 2 * j;
      Action action = compute_action(Op::kForward, stage, first, pipe);
      if (fused_) {
        action.span = static_cast<std::uint8_t>(count);
        put(slot, action);
        continue;
      }
      for (; action.micro < first + count; ++action.micro) put(slot, action);
    }
  }

  void add_backwards(const Unit& unit, int pipe, int first, int j) {
    const int stages = placement_.stages();
    for (int stage = 0; stage < stages; ++stage) {
      put(unit.start + 2 * stages - 1 - stage + 2 * j,
          compute_action(Op::kBackward, stage, first + j, pipe));
    }
  }

  int pairs_;
  bool fused_;
  Placement placement_;
  std::vector<std::vector<Slotted>> rows_;  // by worker
};

std::vector<Unit> units_of(const Spec& spec) {
  const Method method = spec.method.value_or(Method::kDirect);
  std::vector<Unit> units;
  int start = 0;
  for (int first = 0; first < spec.micros; first += units.back().micros) {
    const int rest = spec.micros - first;
    const bool doubled =
        method == Method::kHalving || (method == Method::kDoubling && rest > spec.stages);
    units.push_back({first, std::min(rest, (doubled ? 2 : 1) * spec.stages), start, doubled});
    start += (doubled ? 3 : 2) * spec.stages;
  }
  return units;
}

}  // namespace

Schedule make_chimera(const Spec& spec) {
  Placement placement = Placement::bidirectional(spec.stages, spec.pairs.value_or(1));
  Grid grid(spec, placement);
  for (const Unit& unit : units_of(spec)) grid.add(unit);
  return {.name = "chimera",
          .micros = spec.micros,
          .placement = std::move(placement),
          .rows = std::move(grid).rows()};
}

}  // namespace chimera
