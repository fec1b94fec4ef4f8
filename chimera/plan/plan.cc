// Branch and bound. A candidate gets the split that spreads its load, the least recompute that fits
// its memory, and a bound: no step is shorter than its busiest worker's work and the way there and
// back (bounds.h). Candidates are simulated in the order of their bounds until the next bound is
// longer than the last of the plans that are wanted, or of ten. The best few then get a better
// split, which simulation judges (refine.h). Test: plan_test.cc compares with simulating all.
#include "chimera/plan/plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/plan/bounds.h"
#include "chimera/plan/candidates.h"
#include "chimera/plan/draft.h"
#include "chimera/plan/explain.h"
#include "chimera/plan/fitting.h"
#include "chimera/plan/partition.h"
#include "chimera/plan/refine.h"

namespace chimera {
namespace {

void check_from_1(std::string_view what, int seen) {
  if (seen >= 1) return;
  throw Error(ErrorCode::kUsage, cat(what, " is ", seen, "; expected a whole number from 1"));
}

void check(const PlanRequest& request) {
  check_from_1("the number of ranks", request.ranks);
  check_from_1("the batch", request.batch);
  check_from_1("the number of plans wanted", request.most);
  if (const auto blocks = std::ssize(request.profile.blocks); blocks > kMostBlocks) {
    throw Error(ErrorCode::kUsage, cat("the model has ", blocks, " blocks; expected at most ",
                                       kMostBlocks, "; try several layers as one block"));
  }
  for (const int size : request.micro_batches) check_from_1("a micro-batch", size);
  check_devices(request.machine, request.ranks);
  for (const int stages : request.stages) {
    check_from_1("the number of stages", stages);
    if (request.ranks % stages == 0) continue;
    throw Error(ErrorCode::kUsage, cat("the number of stages is ", stages,
                                       "; expected a divisor of the ", request.ranks, " ranks"));
  }
  for (const std::string& name : request.schedules) (void)generator(name);
}

class Search {
 public:
  explicit Search(const PlanRequest& request) : request_(request) {}

  Plans run() && {
    Candidates all = candidates(request_);
    plans_.refused = std::move(all.refused);
    plans_.considered = static_cast<int>(all.possible.size() + plans_.refused.size());
    std::vector<Draft> drafts;
    for (const Candidate& candidate : all.possible) add_draft(candidate, drafts);
    std::stable_sort(drafts.begin(), drafts.end(),
                     [](const Draft& a, const Draft& b) { return a.bound_s < b.bound_s; });
    for (Draft& draft : drafts) {
      if (enough() && draft.bound_s >= plans_.best.back().prediction.step_s) break;
      simulate_draft(draft);
    }
    refine();
    finish();
    return std::move(plans_);
  }

  // Whether one of them can be.
  [[nodiscard]] bool finds_one(const std::vector<Candidate>& candidates) && {
    for (const Candidate& candidate : candidates) {
      std::vector<Draft> drafts;
      add_draft(candidate, drafts);
      for (Draft& draft : drafts) simulate_draft(draft);
      if (!plans_.best.empty()) return true;
    }
    return false;
  }

 private:
  // Plans to look for: what is wanted, and never so few that the best depended on it.
  [[nodiscard]] std::size_t most() const {
    constexpr int kLeast = 10;
    return static_cast<std::size_t>(std::max(request_.most, kLeast));
  }

  [[nodiscard]] bool enough() const { return plans_.best.size() >= most(); }

  void refuse(const Draft& draft, const std::string& reason) {
    plans_.refused.push_back({draft.candidate, Obstacle::kSchedule, reason, draft.bound_s});
  }

  void add_draft(const Candidate& candidate, std::vector<Draft>& drafts) {
    Draft draft{.candidate = candidate};
    try {
      draft = ordered(candidate, request_.reduce);
    } catch (const Error& error) {
      refuse(draft, error.what());
      return;
    }
    draft.candidate.split = balanced(draft);
    if (!fit(draft, 0)) return;
    drafts.push_back(std::move(draft));
  }

  // Depends on D, B and the placement alone.
  const std::vector<int>& balanced(const Draft& draft) {
    const Candidate& candidate = draft.candidate;
    const auto key =
        std::tuple(candidate.spec.stages, candidate.micro_batch, draft.placement.pipes());
    const auto [found, is_new] = splits_.try_emplace(key);
    if (is_new) found->second = balanced_by_load(loads(candidate.micro_batch), draft.placement);
    return found->second;
  }

  [[nodiscard]] BlockLoads loads(int sequences) const {
    const Profile& profile = request_.profile;
    const auto seconds = [&](const std::string& name) {
      const LayerPoint point = profile.kind(name).at(sequences);
      return point.forward_s + point.backward_s;
    };
    BlockLoads loads;
    for (const std::string& name : profile.blocks) loads.blocks.push_back(seconds(name));
    for (const std::string& name : profile.first) loads.first += seconds(name);
    for (const std::string& name : profile.last) loads.last += seconds(name);
    return loads;
  }

  // Chooses recompute from `least` blocks a stage, another split where that one does not fit, and
  // the bound; false: refused.
  bool fit(Draft& draft, int least) {
    const Fitting fitting(request_, draft.candidate, draft.placement, draft.rows);
    Candidate& candidate = draft.candidate;
    int blocks = fitting.least_recompute(candidate.split, least);
    // Not once a split was found to fit: more recompute of that one, or none, so that it ends.
    if (least == 0 && fitting.lack(candidate.split, blocks) > 0) {
      candidate.split = fitting.roomiest(candidate.split);
      blocks = fitting.least_recompute(candidate.split, 0);
    }
    candidate.recomputed = first_blocks(candidate.split, blocks);
    draft.bound_s =
        least_step_s(RowWork(draft.rows, draft.steps), candidate, draft.placement, request_);
    const std::vector<double> peaks = fitting.peaks(candidate.split, candidate.recomputed);
    if (excess(peaks, fitting.limits()) == 0) return true;
    refuse_memory(draft, peaks, fitting.limits());
    return false;
  }

  void refuse_memory(const Draft& draft, const std::vector<double>& peaks,
                     const std::vector<double>& limits) {
    std::size_t worst = 0;
    for (std::size_t worker = 0; worker < peaks.size(); ++worker) {
      if (peaks[worker] - limits[worker] > peaks[worst] - limits[worst]) worst = worker;
    }
    plans_.refused.push_back({draft.candidate, Obstacle::kMemory,
                              memory_reason(worst, peaks[worst], limits[worst]), draft.bound_s,
                              peaks[worst], peaks[worst] / limits[worst]});
  }

  // What messages on their way hold may be too much where the order alone fits.
  void simulate_draft(Draft& draft) {
    for (;;) {
      ++plans_.simulated;
      Prediction prediction;
      try {
        prediction = predict(draft.candidate, request_);
      } catch (const Error& error) {
        return refuse(draft, error.what());
      }
      if (excess(prediction.peak_bytes, prediction.limit_bytes) == 0) {
        return insert({draft.candidate, std::move(prediction), ""});
      }
      if (draft.candidate.recomputed == draft.candidate.split) {
        return refuse_memory(draft, prediction.peak_bytes, prediction.limit_bytes);
      }
      const auto& now = draft.candidate.recomputed;
      if (!fit(draft, 1 + *std::max_element(now.begin(), now.end()))) return;
    }
  }

  // As fast and with less memory is better.
  static bool is_better(const Plan& a, const Plan& b) {
    const Prediction &x = a.prediction, &y = b.prediction;
    constexpr double kSame = 1e-9;
    if (std::abs(x.step_s - y.step_s) > kSame * y.step_s) return x.step_s < y.step_s;
    return *std::ranges::max_element(x.peak_bytes) < *std::ranges::max_element(y.peak_bytes);
  }

  void insert(Plan plan) {
    const auto place = std::upper_bound(plans_.best.begin(), plans_.best.end(), plan, is_better);
    plans_.best.insert(place, std::move(plan));
    if (plans_.best.size() > most()) plans_.best.pop_back();
  }

  // Of the best few plans.
  void refine() {
    std::vector<Plan> old = std::move(plans_.best);
    plans_.best.clear();
    for (std::size_t i = 0; i < old.size(); ++i) {
      if (i < kRefined && old[i].candidate.spec.stages > 1) {
        plans_.simulated += improve_split(old[i], request_);
      }
      insert(std::move(old[i]));
    }
  }

  void finish() {
    const auto wanted = static_cast<std::size_t>(request_.most);
    if (plans_.best.size() > wanted)
      plans_.best.erase(plans_.best.begin() + request_.most, plans_.best.end());
    std::stable_sort(plans_.refused.begin(), plans_.refused.end(),
                     [](const Refused& a, const Refused& b) {
                       const auto key = [](const Refused& r) {
                         return r.least_step_s > 0 ? r.least_step_s : HUGE_VAL;
                       };
                       return key(a) < key(b);
                     });
    for (Plan& plan : plans_.best) {
      if (plan.candidate.generator->asynchronous) continue;
      const Program program = candidate_program(plan.candidate, request_.reduce, 1);
      plan.prediction.equation =
          equation_one(program, costs_of(plan.candidate, program.source.placement, request_));
    }
    for (Plan& plan : plans_.best) plan.why = reason(plan, plans_.best.front());
  }

  static constexpr std::size_t kRefined = 3;

  const PlanRequest& request_;
  Plans plans_;
  std::map<std::tuple<int, int, int>, std::vector<int>> splits_;
};

// Of those refused for memory, the nearest to their limits first.
std::vector<Refused> nearest_to_fit(std::vector<Refused> refused) {
  constexpr std::size_t kMost = 16;
  std::erase_if(refused, [](const Refused& one) { return one.obstacle != Obstacle::kMemory; });
  std::ranges::stable_sort(refused, {}, &Refused::needed_memories);
  if (refused.size() > kMost) refused.erase(refused.begin() + kMost, refused.end());
  return refused;
}

// As many times the machine's memory, what is reserved left out, as some plan needs, to a percent;
// 0 where more memory does not help. Looks at those alone that lack least.
double needed_memory(const PlanRequest& request, const std::vector<Refused>& refused) {
  const std::vector<Refused> nearest = nearest_to_fit(refused);
  std::vector<Candidate> candidates;
  for (const Refused& one : nearest) {
    Candidate& candidate = candidates.emplace_back(one.candidate);
    candidate.split.clear();
    candidate.recomputed.clear();
  }
  const auto fits = [&](double factor) {
    PlanRequest more = request;
    for (double& bytes : more.machine.memory_bytes) bytes *= factor;
    more.machine.reserved_bytes *= factor;
    return Search(more).finds_one(candidates);
  };
  PlanRequest unlimited = request;
  unlimited.machine.memory_bytes.clear();
  if (nearest.empty() || !Search(unlimited).finds_one(candidates)) return 0;
  constexpr double kPrecision = 1.005;
  double low = 1, high = std::max(kPrecision, nearest.front().needed_memories);
  while (!fits(high)) low = high, high *= 2;
  while (high / low > kPrecision) {
    const double middle = std::sqrt(low) * std::sqrt(high);
    (fits(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace

Plans plan(const PlanRequest& request) {
  check(request);
  Plans plans = Search(request).run();
  if (!plans.best.empty()) return plans;
  throw Error(ErrorCode::kUsage,
              no_plan_reason(plans, request, needed_memory(request, plans.refused)));
}

}  // namespace chimera
