#include "chimera/plan/fitting.h"

#include <algorithm>
#include <cmath>

#include "chimera/base/index.h"
#include "chimera/plan/partition.h"

namespace chimera {

double excess(const std::vector<double>& peaks, const std::vector<double>& limits) {
  double sum = 0;
  for (std::size_t worker = 0; worker < peaks.size(); ++worker) {
    sum += std::max(0.0, peaks[worker] - limits[worker]);
  }
  return sum;
}

std::vector<int> first_blocks(const std::vector<int>& split, int most) {
  std::vector<int> blocks = split;
  for (int& count : blocks) count = std::min(count, most);
  return blocks;
}

Fitting::Fitting(const PlanRequest& request, const Candidate& candidate, const Placement& placement,
                 const Rows& rows)
    : request_(request),
      candidate_(candidate),
      placement_(placement),
      rows_(rows),
      limits_(planned_limits(request.machine, candidate_layout(candidate, placement))) {}

std::vector<double> Fitting::peaks(const std::vector<int>& split,
                                   const std::vector<int>& recomputed) const {
  Candidate candidate = candidate_;
  candidate.split = split;
  candidate.recomputed = recomputed;
  return rows_.least_peaks(layout_memory(request_.profile, candidate_layout(candidate, placement_)),
                           recomputed);
}

double Fitting::lack(const std::vector<int>& split, int blocks) const {
  return excess(peaks(split, first_blocks(split, blocks)), limits_);
}

// More recompute nearly always holds less; where the work of recomputing makes it more, every
// number is looked at, or every few where a stage has hundreds of blocks.
int Fitting::least_recompute(const std::vector<int>& split, int low) const {
  const int most = *std::max_element(split.begin(), split.end());
  if (lack(split, low) == 0) return low;
  if (lack(split, most) > 0) {
    constexpr int kLooks = 100;
    for (int blocks = low + 1; blocks < most; blocks += 1 + (most - low) / kLooks) {
      if (lack(split, blocks) == 0) return blocks;
    }
    return most;
  }
  int high = most;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (lack(split, middle) == 0 ? high : low) = middle;
  }
  return high;
}

std::vector<int> Fitting::roomiest(const std::vector<int>& start) const {
  constexpr int kTries = 100;
  SplitProblem problem;
  problem.start = start;
  for (const int blocks : start) problem.blocks += blocks;
  problem.worth = [&](const std::vector<int>& split) {
    const std::vector<double> held = peaks(split, split);
    return Worth{excess(held, limits_), *std::max_element(held.begin(), held.end())};
  };
  problem.bound = problem.worth;
  problem.load = [&](const std::vector<int>& split) { return fullness(split); };
  problem.most_tries = kTries;
  return best_split(problem).split;
}

// By stage: how far the fullest worker that holds it is above its limit, all recomputed.
std::vector<double> Fitting::fullness(const std::vector<int>& split) const {
  const std::vector<double> held = peaks(split, split);
  std::vector<double> full;
  for (int stage = 0; stage < placement_.stages(); ++stage) {
    double most = -HUGE_VAL;
    for (const int worker : placement_.holders(stage)) {
      most = std::max(most, held[as_index(worker)] - limits_[as_index(worker)]);
    }
    full.push_back(most);
  }
  return full;
}

}  // namespace chimera
