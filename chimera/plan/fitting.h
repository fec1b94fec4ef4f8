// What fits in memory: of a candidate whose order is known, how many blocks each stage of a split
// must recompute, and which split leaves most room. By the order alone (RowMemory of bounds.h),
// so what fits here may still lack the room for messages on their way. Pure.
#pragma once

#include <vector>

#include "chimera/plan/bounds.h"
#include "chimera/plan/plan.h"

namespace chimera {

// Bytes above the limits, over all workers.
[[nodiscard]] double excess(const std::vector<double>& peaks, const std::vector<double>& limits);

// So many of each stage, or all it has.
[[nodiscard]] std::vector<int> first_blocks(const std::vector<int>& split, int most);

class Fitting {
 public:
  // Request, candidate and placement must outlive it. `candidate` says all but split and recompute.
  Fitting(const PlanRequest& request, const Candidate& candidate, const Placement& placement,
          const Rows& rows);

  [[nodiscard]] const std::vector<double>& limits() const { return limits_; }

  // Of each worker.
  [[nodiscard]] std::vector<double> peaks(const std::vector<int>& split,
                                          const std::vector<int>& recomputed) const;

  // Bytes above the limits where so many blocks of each stage are recomputed.
  [[nodiscard]] double lack(const std::vector<int>& split, int blocks) const;

  // The least number of blocks of each stage to recompute, from `low`, so that memory suffices; the
  // largest stage's where it does not. The same for all stages, for the search asks this of many
  // candidates; training with pipeline.recompute=auto asks once, and chooses stage by stage
  // (job/memory_plan.h).
  [[nodiscard]] int least_recompute(const std::vector<int>& split, int low) const;

  // The split that lacks least memory where all is recomputed; of those, the least peak.
  [[nodiscard]] std::vector<int> roomiest(const std::vector<int>& start) const;

 private:
  [[nodiscard]] std::vector<double> fullness(const std::vector<int>& split) const;

  const PlanRequest& request_;
  const Candidate& candidate_;
  const Placement& placement_;
  RowMemory rows_;
  std::vector<double> limits_;
};

}  // namespace chimera
