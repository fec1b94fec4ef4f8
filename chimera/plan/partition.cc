// Three ways to a split, each with what it is for.
//
// 1. By load. Is there a split with no worker above T? With one stage a worker: fill stages up to T
//    from the first. With stages s and D - 1 - s on a worker: fill pairs from both ends; after s
//    pairs, f_s(i) is the most blocks at the end that they can hold together with i at the
//    beginning. More held is never worse, for what is left may be less than allowed, so
//
//      f_{s+1}(i + a) = max over a of  f_s(i) + most b with load(a) + load(b) <= T.
//
//    The least T is found by halving. Every stage needs a block, which is kept for those to come.
// 2. All splits, in the order of their bounds: once the next bound is no better than the best worth
//    no split that is left can be.
// 3. Moves: a block from one stage to another, the stages between passing one on. Those are tried
//    whose bound is better than the best worth, the best bound first.
//
// Test: partition_test.cc compares with brute force.
#include "chimera/plan/partition.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

#include "chimera/base/check.h"
#include "chimera/base/index.h"

namespace chimera {
namespace {

// ---- by load ------------------------------------------------------------------------------------

class Loads {
 public:
  Loads(const BlockLoads& loads, int stages) : loads_(loads), stages_(stages), sums_(1, 0.0) {
    for (const double block : loads.blocks) sums_.push_back(sums_.back() + block);
  }

  [[nodiscard]] int blocks() const { return static_cast<int>(loads_.blocks.size()); }
  [[nodiscard]] int stages() const { return stages_; }

  // Of stage s with blocks [begin, end).
  [[nodiscard]] double stage(int s, int begin, int end) const {
    return sums_[as_index(end)] - sums_[as_index(begin)] + (s == 0 ? loads_.first : 0) +
           (s + 1 == stages_ ? loads_.last : 0);
  }

  [[nodiscard]] double total() const { return sums_.back() + loads_.first + loads_.last; }

  [[nodiscard]] std::vector<double> of(const std::vector<int>& split) const {
    std::vector<double> all;
    int begin = 0;
    for (int s = 0; s < stages_; ++s) {
      all.push_back(stage(s, begin, begin + split[as_index(s)]));
      begin += split[as_index(s)];
    }
    return all;
  }

 private:
  const BlockLoads& loads_;
  int stages_;
  std::vector<double> sums_;
};

double busiest(const Loads& loads, const Placement& placement, const std::vector<int>& split) {
  const std::vector<double> of_stage = loads.of(split);
  double most = 0;
  for (int worker = 0; worker < placement.workers(); ++worker) {
    double sum = 0;
    for (const int stage : placement.stages_of(worker)) sum += of_stage[as_index(stage)];
    most = std::max(most, sum);
  }
  return most;
}

// Nothing where there is none.
using Split = std::optional<std::vector<int>>;

// One stage a worker, none above `limit`.
Split fill_stages(const Loads& loads, double limit) {
  std::vector<int> split;
  int begin = 0;
  for (int s = 0; s < loads.stages(); ++s) {
    const int last_end = loads.blocks() - (loads.stages() - 1 - s);  // leaves one to each
    int end = begin + 1;
    if (end > last_end || loads.stage(s, begin, end) > limit) return {};
    while (end < last_end && loads.stage(s, begin, end + 1) <= limit) ++end;
    if (s + 1 == loads.stages()) {
      if (loads.stage(s, begin, loads.blocks()) > limit) return {};
      end = loads.blocks();
    }
    split.push_back(end - begin);
    begin = end;
  }
  return split;
}

// Stages s and D - 1 - s together, none above `limit`; D is even.
class PairFill {
 public:
  PairFill(const Loads& loads, double limit)
      : loads_(loads), limit_(limit), pairs_(loads.stages() / 2), blocks_(loads.blocks()) {}

  Split split() {
    reach_.assign(as_index(pairs_ + 1), std::vector<int>(as_index(blocks_ + 1), kNever));
    from_.assign(as_index(pairs_ + 1), std::vector<int>(as_index(blocks_ + 1), 0));
    reach_[0][0] = 0;
    for (int pair = 0; pair < pairs_; ++pair) {
      for (int i = pair; i <= blocks_; ++i) {
        if (reach_[as_index(pair)][as_index(i)] != kNever) extend(pair, i);
      }
    }
    for (int i = 0; i <= blocks_; ++i) {
      if (reach_[as_index(pairs_)][as_index(i)] != kNever &&
          i + reach_[as_index(pairs_)][as_index(i)] >= blocks_) {
        return trace(i);
      }
    }
    return {};
  }

 private:
  static constexpr int kNever = -1;

  // From i blocks at the beginning, and as many as can be at the end. As the first stage of the
  // pair grows, the second shrinks, so b only falls.
  void extend(int pair, int i) {
    const int j = reach_[as_index(pair)][as_index(i)];
    const int rest = 2 * (pairs_ - 1 - pair);  // a block for each stage to come
    int b = blocks_ - i - j - rest - 1;
    for (int a = 1; a + 1 <= blocks_ - i - j - rest; ++a) {
      b = std::min(b, blocks_ - i - j - rest - a);
      while (b >= 1 && load(pair, i, a, j, b) > limit_) --b;
      if (b < 1) return;
      int& best = reach_[as_index(pair + 1)][as_index(i + a)];
      if (j + b > best) {
        best = j + b;
        from_[as_index(pair + 1)][as_index(i + a)] = i;
      }
    }
  }

  [[nodiscard]] double load(int pair, int i, int a, int j, int b) const {
    return loads_.stage(pair, i, i + a) +
           loads_.stage(loads_.stages() - 1 - pair, blocks_ - j - b, blocks_ - j);
  }

  // All blocks are held: exactly, since no pair takes what another needs and the last takes no more
  // than is there.
  std::vector<int> trace(int i) {
    std::vector<int> split(as_index(loads_.stages()));
    int end = blocks_ - i;  // of the blocks at the end
    for (int pair = pairs_; pair > 0; --pair) {
      const int before = from_[as_index(pair)][as_index(i)];
      const int held = reach_[as_index(pair - 1)][as_index(before)];
      split[as_index(pair - 1)] = i - before;
      split[as_index(loads_.stages() - pair)] = end - held;
      end = held;
      i = before;
    }
    return split;
  }

  const Loads& loads_;
  double limit_;
  int pairs_, blocks_;
  // By pairs placed and blocks at the beginning: most at the end, and from where that came.
  std::vector<std::vector<int>> reach_, from_;
};

// The least limit for which `fill` finds a split, and that split.
template <class Fill>
std::vector<int> least(const Loads& loads, Fill fill) {
  // A worker may hold all stages, and their sum in another order be rounded above the total.
  double low = 0, high = loads.total() * (1 + 1e-9);
  Split best = fill(high);
  CHECK(best.has_value());
  constexpr int kHalvings = 48;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    if (Split split = fill(middle)) {
      best = std::move(split);
      high = middle;
    } else {
      low = middle;
    }
  }
  return *best;
}

// A block from one stage to another; those between pass one on.
std::vector<int> moved(std::vector<int> split, int from, int to) {
  --split[as_index(from)];
  ++split[as_index(to)];
  return split;
}

// As long as the busiest worker gets less to do.
std::vector<int> improved(const Loads& loads, const Placement& placement, std::vector<int> split) {
  double now = busiest(loads, placement, split);
  for (bool better = true; better;) {
    better = false;
    for (int from = 0; from < loads.stages() && !better; ++from) {
      for (int to = 0; to < loads.stages() && !better && split[as_index(from)] > 1; ++to) {
        if (from == to) continue;
        const std::vector<int> other = moved(split, from, to);
        const double then = busiest(loads, placement, other);
        if (then < now * (1 - 1e-12)) split = other, now = then, better = true;
      }
    }
  }
  return split;
}

// ---- by worth -----------------------------------------------------------------------------------

struct Bounded {
  Worth bound;
  std::vector<int> split;
};

bool bound_is_less(const Bounded& a, const Bounded& b) {
  return std::tie(a.bound, a.split) < std::tie(b.bound, b.split);
}

double number_of_splits(int blocks, int stages) {
  double number = 1;
  for (int i = 1; i < stages; ++i) number *= static_cast<double>(blocks - i) / i;
  return number;
}

void add_splits(const SplitProblem& problem, std::vector<int>& split, int left,
                std::vector<Bounded>& all) {
  const std::size_t stages = problem.start.size();
  if (split.size() + 1 == stages) {
    split.push_back(left);
    all.push_back({problem.bound(split), split});
    split.pop_back();
    return;
  }
  const int most = left - static_cast<int>(stages - split.size() - 1);
  for (int blocks = 1; blocks <= most; ++blocks) {
    split.push_back(blocks);
    add_splits(problem, split, left - blocks, all);
    split.pop_back();
  }
}

void attempt(const SplitProblem& problem, const std::vector<int>& split, SplitChoice& choice) {
  const Worth worth = problem.worth(split);
  ++choice.tries;
  if (choice.split.empty() || worth < choice.worth) {
    choice.split = split;
    choice.worth = worth;
  }
}

SplitChoice best_of_all(const SplitProblem& problem) {
  std::vector<Bounded> all;
  std::vector<int> split;
  add_splits(problem, split, problem.blocks, all);
  std::sort(all.begin(), all.end(), bound_is_less);
  SplitChoice choice;
  choice.exact = true;
  attempt(problem, problem.start, choice);
  for (const Bounded& next : all) {
    if (!(next.bound < choice.worth)) break;
    if (choice.tries >= problem.most_tries) {
      choice.exact = false;
      break;
    }
    attempt(problem, next.split, choice);
  }
  return choice;
}

struct Ends {
  std::vector<int> from, to;  // stages
};

Ends ends_of_moves(const SplitProblem& problem, const std::vector<int>& split) {
  constexpr std::size_t kFrom = 6, kTo = 10;
  std::vector<int> stages(split.size());
  std::iota(stages.begin(), stages.end(), 0);
  if (!problem.load) return {stages, stages};
  const std::vector<double> load = problem.load(split);
  std::stable_sort(stages.begin(), stages.end(),
                   [&](int a, int b) { return load[as_index(a)] < load[as_index(b)]; });
  Ends ends;
  ends.to = stages;
  ends.from.assign(stages.rbegin(), stages.rend());
  if (ends.to.size() > kTo) ends.to.resize(kTo);
  if (ends.from.size() > kFrom) ends.from.resize(kFrom);
  return ends;
}

// Not seen, and not known to be worth less than the best; the best bound first.
std::vector<Bounded> promising_moves(const SplitProblem& problem, const SplitChoice& choice,
                                     const std::set<std::vector<int>>& seen) {
  std::vector<Bounded> moves;
  const Ends ends = ends_of_moves(problem, choice.split);
  for (const int from : ends.from) {
    if (choice.split[as_index(from)] == 1) continue;
    for (const int to : ends.to) {
      if (from == to) continue;
      Bounded move{.bound = {}, .split = moved(choice.split, from, to)};
      if (seen.contains(move.split)) continue;
      move.bound = problem.bound(move.split);
      if (move.bound < choice.worth) moves.push_back(std::move(move));
    }
  }
  std::sort(moves.begin(), moves.end(), bound_is_less);
  return moves;
}

SplitChoice best_by_moves(const SplitProblem& problem) {
  SplitChoice choice;
  attempt(problem, problem.start, choice);
  std::set<std::vector<int>> seen = {problem.start};
  for (bool better = true; better;) {
    better = false;
    for (const Bounded& move : promising_moves(problem, choice, seen)) {
      if (choice.tries >= problem.most_tries) return choice;
      seen.insert(move.split);
      const Worth before = choice.worth;
      attempt(problem, move.split, choice);
      better = choice.worth < before;
      if (better) break;
    }
  }
  return choice;
}

}  // namespace

std::vector<int> balanced_by_load(const BlockLoads& blocks, const Placement& placement) {
  const Loads loads(blocks, placement.stages());
  CHECK(loads.stages() >= 1 && loads.stages() <= loads.blocks());
  std::vector<int> best = least(loads, [&](double limit) { return fill_stages(loads, limit); });
  if (placement.pipes() == 1) return best;
  const bool alike = std::ranges::all_of(
      blocks.blocks, [&](double block) { return block == blocks.blocks.front(); });
  if (loads.stages() % 2 == 0) {
    const std::vector<int> pairs =
        least(loads, [&](double limit) { return PairFill(loads, limit).split(); });
    if (busiest(loads, placement, pairs) < busiest(loads, placement, best)) best = pairs;
  }
  return placement.pipes() == 2 && alike ? best : improved(loads, placement, best);
}

SplitChoice best_split(const SplitProblem& problem) {
  const int stages = static_cast<int>(problem.start.size());
  if (number_of_splits(problem.blocks, stages) <= kFewSplits) return best_of_all(problem);
  return best_by_moves(problem);
}

}  // namespace chimera
