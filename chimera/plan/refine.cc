#include "chimera/plan/refine.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "chimera/base/error.h"
#include "chimera/base/index.h"
#include "chimera/plan/draft.h"
#include "chimera/plan/fitting.h"
#include "chimera/plan/partition.h"

namespace chimera {
namespace {

class Refinement {
 public:
  Refinement(const Plan& plan, const PlanRequest& request)
      : plan_(plan),
        request_(request),
        draft_(ordered(plan.candidate, request.reduce)),
        fitting_(request_, draft_.candidate, draft_.placement, draft_.rows),
        work_(draft_.rows, draft_.steps) {}

  [[nodiscard]] Plan best() {
    SplitProblem problem;
    problem.start = plan_.candidate.split;
    problem.blocks = std::accumulate(problem.start.begin(), problem.start.end(), 0);
    problem.most_tries = most_tries();
    problem.worth = [this](const std::vector<int>& split) { return worth(split); };
    problem.bound = [this](const std::vector<int>& split) { return bound(split); };
    problem.load = [this](const std::vector<int>& split) { return load(split); };
    const SplitChoice choice = best_split(problem);
    if (choice.split == plan_.candidate.split) return plan_;
    Plan better{with(choice.split), {}, ""};
    better.prediction = predict(better.candidate, request_);
    return better;
  }

  [[nodiscard]] int simulated() const { return simulated_; }

 private:
  // How much simulation a better split is worth: (stage, micro-batch) pairs over all tries.
  [[nodiscard]] int most_tries() const {
    constexpr double kCells = 50'000;
    const Spec& spec = plan_.candidate.spec;
    return static_cast<int>(std::clamp(
        kCells / (static_cast<double>(spec.stages) * spec.micros * draft_.steps), 4.0, 200.0));
  }

  [[nodiscard]] Candidate with(const std::vector<int>& split) const {
    Candidate candidate = plan_.candidate;
    candidate.split = split;
    candidate.recomputed = first_blocks(split, fitting_.least_recompute(split, 0));
    return candidate;
  }

  [[nodiscard]] Worth worth(const std::vector<int>& split) {
    // The plan's own: simulated before, and known to fit.
    if (split == plan_.candidate.split) return {0, plan_.prediction.step_s};
    ++simulated_;
    try {
      const Prediction prediction = predict(with(split), request_);
      return {excess(prediction.peak_bytes, prediction.limit_bytes), prediction.step_s};
    } catch (const Error&) {  // an asynchronous schedule may have no steady time with it
      return {HUGE_VAL, HUGE_VAL};
    }
  }

  [[nodiscard]] Worth bound(const std::vector<int>& split) const {
    const Candidate candidate = with(split);
    return {excess(fitting_.peaks(split, candidate.recomputed), fitting_.limits()),
            least_step_s(work_, candidate, draft_.placement, request_)};
  }

  // Of each stage: the computation of the busiest worker that holds it.
  [[nodiscard]] std::vector<double> load(const std::vector<int>& split) const {
    const Candidate candidate = with(split);
    const std::vector<double> busy =
        work_.busy_s(costs_of(candidate, draft_.placement, request_), candidate.recomputed);
    std::vector<double> of_stage(split.size(), 0.0);
    for (int worker = 0; worker < draft_.placement.workers(); ++worker) {
      for (const int stage : draft_.placement.stages_of(worker)) {
        double& most = of_stage[as_index(stage)];
        most = std::max(most, busy[as_index(worker)]);
      }
    }
    return of_stage;
  }

  const Plan& plan_;
  const PlanRequest& request_;
  Draft draft_;
  Fitting fitting_;
  RowWork work_;
  int simulated_ = 0;
};

}  // namespace

int improve_split(Plan& plan, const PlanRequest& request) {
  Refinement refinement(plan, request);
  Plan better = refinement.best();
  plan = std::move(better);
  return refinement.simulated();
}

}  // namespace chimera
