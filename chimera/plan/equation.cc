// Test: equation_test.cc compares the counts with the paper's, and the whole with the simulator.
#include "chimera/plan/equation.h"

#include <algorithm>
#include <map>

#include "chimera/simulate/simulate.h"
#include "chimera/simulate/timeline.h"

namespace chimera {
namespace {

bool recomputes(const Program& program) {
  return std::any_of(program.source.rows.begin(), program.source.rows.end(), [](const Row& row) {
    return std::any_of(row.begin(), row.end(),
                       [](const Action& action) { return action.op == Op::kRecompute; });
  });
}

// Recompute counts as a part of the backward, as in the paper.
Costs equal_stages(int stages, double forward_s, double backward_s, bool again) {
  Costs costs = Costs::uniform(stages, forward_s, again ? backward_s * 2 / 3 : backward_s);
  if (again) costs.recompute_s.assign(static_cast<std::size_t>(stages), backward_s / 3);
  return costs;
}

double largest(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

double slowest_message_s(const Program& program, const Costs& costs) {
  double slowest = 0;
  for (std::size_t worker = 0; worker < program.rows.size(); ++worker) {
    for (const Action& action : program.rows[worker]) {
      if (!is_send(action.op)) continue;
      const Link& link =
          costs.link_of(channel_of(program.source.placement, static_cast<int>(worker), action));
      slowest = std::max(slowest, link.latency_s + costs.message_bytes(action) / link.bandwidth);
    }
  }
  return slowest;
}

// Of a worker's row in a timeline: what its reductions can hide behind.
struct Regions {
  double first_start_s = 0;
  std::vector<std::pair<double, int>> complete;  // when each stage's gradients are, ascending
};

Regions regions_of(const std::vector<Interval>& row) {
  Regions regions;
  std::map<int, double> complete;
  bool begun = false;
  for (const Interval& interval : row) {
    const Op op = interval.action.op;
    if (!is_compute(op)) continue;
    if (!begun) regions.first_start_s = interval.start_s;
    begun = true;
    if (op == Op::kBackward || op == Op::kBackwardWeight) {
      complete[interval.action.stage] = interval.end_s;
    }
  }
  for (const auto& [stage, end_s] : complete) regions.complete.emplace_back(end_s, stage);
  std::sort(regions.complete.begin(), regions.complete.end());
  return regions;
}

double unoverlapped(const Timeline& timeline, const Costs& costs) {
  const double step_s = makespan(timeline);
  double most = 0;
  for (const auto& row : timeline.rows) {
    const Regions regions = regions_of(row);
    // Sums that go on at a time; each takes the lane that is free first.
    std::vector<double> lanes(static_cast<std::size_t>(costs.reduces_at_once), 0.0);
    for (const auto& [complete_s, stage] : regions.complete) {
      double& lane = *std::min_element(lanes.begin(), lanes.end());
      lane = std::max(lane, complete_s) + costs.reduce(stage);
    }
    // The worker's next forward begins so much after this step's end as its first began.
    most = std::max(most, largest(lanes) - (step_s + regions.first_start_s));
  }
  return std::max(0.0, most);
}

}  // namespace

CriticalPath critical_path(const Program& program) {
  constexpr double kForward = 1, kSmall = 1e-3;
  const bool again = recomputes(program);
  const double backward = again ? 3 : 2;
  const auto seconds = [&](double forward_s, double backward_s) {
    return makespan(
        simulate(program, equal_stages(program.source.stages(), forward_s, backward_s, again)));
  };
  const double whole = seconds(kForward, backward);
  CriticalPath path;
  path.forwards = (seconds(kForward + kSmall, backward) - whole) / kSmall;
  path.backwards = (whole - path.forwards * kForward) / backward;
  return path;
}

EquationOne equation_one(const Program& program, const Costs& costs) {
  const bool again = recomputes(program);
  EquationOne result;
  result.forward_s = largest(costs.forward_s);
  for (std::size_t stage = 0; stage < costs.backward_s.size(); ++stage) {
    const double recompute = !again                      ? 0
                             : costs.recompute_s.empty() ? costs.forward_s[stage]
                                                         : costs.recompute_s[stage];
    result.backward_s = std::max(result.backward_s, costs.backward_s[stage] + recompute);
  }
  result.p2p_s = slowest_message_s(program, costs);
  result.path = critical_path(program);
  const Timeline timeline =
      simulate(program, equal_stages(program.source.stages(), result.forward_s + result.p2p_s,
                                     result.backward_s + result.p2p_s, again));
  result.unoverlapped_s = unoverlapped(timeline, costs);
  result.step_s = costs.step_s + largest(costs.stage_step_s);
  result.seconds = (result.forward_s + result.p2p_s) * result.path.forwards +
                   (result.backward_s + result.p2p_s) * result.path.backwards +
                   result.unoverlapped_s + result.step_s;
  return result;
}

}  // namespace chimera
