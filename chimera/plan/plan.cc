// Branch and bound. A candidate gets the split that spreads its load, the least recompute that fits
// its memory, and a bound: no step is shorter than its busiest worker's work and the way there and
// back (bounds.h). Candidates are simulated in the order of their bounds until the next bound is
// longer than the last plan that is wanted. The best few then get a better split, which simulation
// judges (partition.h). Test: plan_test.cc compares with simulating everything.
#include "chimera/plan/plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "chimera/base/error.h"
#include "chimera/base/index.h"
#include "chimera/base/text.h"
#include "chimera/plan/bounds.h"
#include "chimera/plan/candidates.h"
#include "chimera/plan/explain.h"
#include "chimera/plan/fitting.h"
#include "chimera/plan/partition.h"
#include "chimera/schedule/schedule.h"

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
  for (const int size : request.micro_batches) check_from_1("a micro-batch", size);
  if (request.ranks > request.machine.devices()) {
    throw Error(ErrorCode::kUsage,
                cat("the number of ranks is ", request.ranks, "; expected at most ",
                    request.machine.devices(), ", the devices of ", request.machine.name));
  }
  for (const int stages : request.stages) {
    check_from_1("the number of stages", stages);
    if (request.ranks % stages == 0) continue;
    throw Error(ErrorCode::kUsage, cat("the number of stages is ", stages,
                                       "; expected a divisor of the ", request.ranks, " ranks"));
  }
  for (const std::string& name : request.schedules) (void)generator(name);
}

// A candidate whose order is known.
struct Draft {
  Candidate candidate = {};
  Placement placement = {};
  Rows rows = {};
  int steps = 1;  // that the rows have
  double bound_s = 0;
};

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

  // Whether there is any plan.
  [[nodiscard]] bool finds_one() && {
    for (const Candidate& candidate : candidates(request_).possible) {
      std::vector<Draft> drafts;
      add_draft(candidate, drafts);
      for (Draft& draft : drafts) simulate_draft(draft);
      if (!plans_.best.empty()) return true;
    }
    return false;
  }

 private:
  [[nodiscard]] bool enough() const {
    return static_cast<int>(plans_.best.size()) >= request_.most;
  }

  void refuse(const Draft& draft, const std::string& reason, double needed_bytes = 0) {
    plans_.refused.push_back({draft.candidate, reason, draft.bound_s, needed_bytes});
  }

  void add_draft(const Candidate& candidate, std::vector<Draft>& drafts) {
    Draft draft{.candidate = candidate};
    try {
      order(draft);
    } catch (const Error& error) {
      refuse(draft, error.what());
      return;
    }
    draft.candidate.split = balanced(draft);
    if (!fit(draft, 0)) return;
    drafts.push_back(std::move(draft));
  }

  // An asynchronous schedule is looked at over as many steps as fill it.
  void order(Draft& draft) const {
    const Candidate& candidate = draft.candidate;
    if (!candidate.generator->asynchronous) {
      Schedule schedule = generate(candidate.generator->name, candidate.spec);
      draft.placement = std::move(schedule.placement);
      draft.rows = std::move(schedule.rows);
      return;
    }
    draft.steps = 2 + 2 * candidate.spec.stages / candidate.spec.micros;
    Program program = candidate_program(candidate, request_.reduce, draft.steps);
    draft.placement = std::move(program.source.placement);
    draft.rows = std::move(program.rows);
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

  [[nodiscard]] Costs costs_of(const Candidate& candidate, const Placement& placement) const {
    return layout_costs(request_.profile, request_.machine, candidate_layout(candidate, placement));
  }

  [[nodiscard]] double least_step_s(const RowWork& work, const Candidate& candidate,
                                    const Placement& placement) const {
    return work.least_step_s(placement, costs_of(candidate, placement), candidate.recomputed,
                             request_.barrier && !candidate.generator->asynchronous);
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
    draft.bound_s = least_step_s(RowWork(draft.rows, draft.steps), candidate, draft.placement);
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
    refuse(draft, memory_reason(worst, peaks[worst], limits[worst]), peaks[worst]);
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
    if (static_cast<int>(plans_.best.size()) > request_.most) plans_.best.pop_back();
  }

  // Of the best few plans.
  void refine() {
    std::vector<Plan> old = std::move(plans_.best);
    plans_.best.clear();
    for (std::size_t i = 0; i < old.size(); ++i) {
      if (i < kRefined && old[i].candidate.spec.stages > 1) improve_split(old[i]);
      insert(std::move(old[i]));
    }
  }

  void improve_split(Plan& plan) {
    Draft draft{.candidate = plan.candidate};
    order(draft);
    const Fitting fitting(request_, draft.candidate, draft.placement, draft.rows);
    const RowWork work(draft.rows, draft.steps);
    const auto with = [&](const std::vector<int>& split) {
      Candidate candidate = plan.candidate;
      candidate.split = split;
      candidate.recomputed = first_blocks(split, fitting.least_recompute(split, 0));
      return candidate;
    };
    SplitProblem problem;
    problem.start = plan.candidate.split;
    for (const int blocks : problem.start) problem.blocks += blocks;
    const double cells =
        static_cast<double>(plan.candidate.spec.stages) * plan.candidate.spec.micros * draft.steps;
    problem.most_tries = static_cast<int>(std::clamp(kRefineCells / cells, 4.0, 200.0));
    problem.worth = [&](const std::vector<int>& split) {
      // The plan's own: simulated before, and known to fit.
      if (split == plan.candidate.split) return Worth{0, plan.prediction.step_s};
      ++plans_.simulated;
      try {
        const Prediction prediction = predict(with(split), request_);
        return Worth{excess(prediction.peak_bytes, prediction.limit_bytes), prediction.step_s};
      } catch (const Error&) {  // an asynchronous schedule may have no steady time with it
        return Worth{HUGE_VAL, HUGE_VAL};
      }
    };
    problem.bound = [&](const std::vector<int>& split) {
      const Candidate candidate = with(split);
      return Worth{excess(fitting.peaks(split, candidate.recomputed), fitting.limits()),
                   least_step_s(work, candidate, draft.placement)};
    };
    problem.load = [&](const std::vector<int>& split) {
      const Candidate candidate = with(split);
      const std::vector<double> busy =
          work.busy_s(costs_of(candidate, draft.placement), candidate.recomputed);
      std::vector<double> of_stage(split.size(), 0.0);
      for (int worker = 0; worker < draft.placement.workers(); ++worker) {
        for (const int stage : draft.placement.stages_of(worker)) {
          double& most = of_stage[as_index(stage)];
          most = std::max(most, busy[as_index(worker)]);
        }
      }
      return of_stage;
    };
    const SplitChoice choice = best_split(problem);
    if (choice.split == plan.candidate.split) return;
    plan.candidate = with(choice.split);
    plan.prediction = predict(plan.candidate, request_);
  }

  void finish() {
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
          equation_one(program, costs_of(plan.candidate, program.source.placement));
    }
    for (Plan& plan : plans_.best) plan.why = reason(plan, plans_.best.front());
  }

  static constexpr std::size_t kRefined = 3;
  // How much simulation a better split is worth: (stage, micro-batch) pairs over all tries.
  static constexpr double kRefineCells = 50'000;

  const PlanRequest& request_;
  Plans plans_;
  std::map<std::tuple<int, int, int>, std::vector<int>> splits_;
};

bool fits_with(PlanRequest request, double factor) {
  for (double& bytes : request.machine.memory_bytes) bytes *= factor;
  request.machine.reserved_bytes *= factor;
  return Search(request).finds_one();
}

// As many times the machine's memory, what is reserved left out, as some plan needs, to a percent;
// 0 where more memory does not help.
double needed_memory(const PlanRequest& request) {
  constexpr double kMost = 1 << 20, kPrecision = 1.005;
  if (request.machine.memory_bytes.empty() || !fits_with(request, kMost)) return 0;
  double low = 1, high = 2;
  while (!fits_with(request, high)) low = high, high *= 2;
  while (high / low > kPrecision) {
    const double middle = std::sqrt(low * high);
    (fits_with(request, middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace

Plans plan(const PlanRequest& request) {
  check(request);
  Plans plans = Search(request).run();
  if (!plans.best.empty()) return plans;
  throw Error(ErrorCode::kUsage, no_plan_reason(plans, request, needed_memory(request)));
}

}  // namespace chimera
