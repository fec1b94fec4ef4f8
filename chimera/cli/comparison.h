// The figures behind `chimera compare`: what every schedule that we generate costs at the same
// work. Plain values and a pure function; how they are printed is comparison_table.h's business.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "chimera/generate/generate.h"
#include "chimera/schedule/lower.h"
#include "chimera/simulate/costs.h"

namespace chimera {

// The work: N micro-batches of one group in one step, on D stages.
struct Work {
  int stages = 0, micros = 0;
  Costs costs;
  std::string recompute = "none";  // as with_recompute takes it
  ReducePolicy reduce = ReducePolicy::kEagerOpt;
};

struct Range {
  double low = 0, high = 0;
};

struct Figures {
  double makespan = 0;  // of one step
  double bubble_ratio = 0;
  Range weights;      // over workers: most versions of stages held
  Range stash;        // over workers: most micro-batches whose activations are held
  long messages = 0;  // of one step
  int capacity = 0;   // of the channel that must hold most messages
};

struct Contender {
  const Generator* generator = nullptr;
  Spec spec;                       // halving: its micro-batches are halves, so 2N of them
  std::optional<Figures> figures;  // none where the schedule cannot be
  std::string reason;              // why it cannot
};

// In the order of generators(); where a schedule has pairs, for each of `pairs` (empty: all that
// the stages allow), and where it has methods, for each of them.
//
// A synchronous schedule is timed over one step. An asynchronous one never drains, so it is timed
// in its steady state: how much later each step begins than the one before, once that has settled.
// Throws Error for costs and recompute that do not fit the stages.
[[nodiscard]] std::vector<Contender> compare(const Work& work, const std::vector<int>& pairs);

}  // namespace chimera
