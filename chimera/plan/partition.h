// Partition: how a model's blocks are cut into stages, so that a step is shortest and no worker
// holds more than it may.
//
// A split lists the blocks of each stage, at least one each. What a split is worth is the caller's
// to say (a simulation of the chosen schedule, its order known): so a schedule in which a worker
// holds stages s and D - 1 - s is judged by what both cost together. Pure functions.
#pragma once

#include <functional>
#include <vector>

#include "chimera/schedule/placement.h"

namespace chimera {

// Seconds of each block, and of what is beside those of the first and the last stage.
struct BlockLoads {
  std::vector<double> blocks;
  double first = 0, last = 0;
};

// The split whose busiest worker has least to do, where a worker has that to do which its stages
// have. Exact where each worker holds one stage, or stages s and D - 1 - s of blocks that cost the
// same; else the better of both, improved one block at a time. O(blocks^2 log) time. Requires
// 1 <= stages <= blocks.
[[nodiscard]] std::vector<int> balanced_by_load(const BlockLoads& loads,
                                                const Placement& placement);

// Worth of a split: first that memory suffices, then time.
struct Worth {
  double excess_bytes = 0;  // above the limits, summed over workers
  double seconds = 0;

  friend auto operator<=>(const Worth&, const Worth&) = default;
};

struct SplitProblem {
  int blocks = 0;
  std::vector<int> start;  // a legal split: its stages are the problem's
  // Exact, and expensive.
  std::function<Worth(const std::vector<int>& split)> worth;
  // Cheap: no split is worth less than this. Excess counts before time here, too.
  std::function<Worth(const std::vector<int>& split)> bound;
  // What each stage's worker has to do. Where it is given, moves take from the few stages with most
  // and give to the few with least; else from any to any.
  std::function<std::vector<double>(const std::vector<int>& split)> load = {};
  int most_tries = 64;  // splits whose worth is taken
};

struct SplitChoice {
  std::vector<int> split;
  Worth worth;
  bool exact = false;  // no split is better
  int tries = 0;       // splits whose worth was taken
};

// All splits are bounded where they are few (kFewSplits), and what comes of it is exact if the
// tries suffice; else one block after the other is moved from the start, as long as it is worth it.
inline constexpr double kFewSplits = 2'000;
[[nodiscard]] SplitChoice best_split(const SplitProblem& problem);

}  // namespace chimera
