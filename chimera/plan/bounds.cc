#include "chimera/plan/bounds.h"

#include <algorithm>

#include "chimera/base/index.h"

namespace chimera {
RowWork::RowWork(const Rows& rows, int steps) {
  for (const Row& row : rows) {
    WorkerCount worker;
    bool begun = false;
    for (const Action& action : row) {
      if (!is_compute(action.op)) continue;
      if (!begun) worker.first_stage = action.stage;
      begun = true;
      worker.last_stage = action.stage;
      auto found = std::find_if(worker.stages.begin(), worker.stages.end(),
                                [&](const StageCount& s) { return s.stage == action.stage; });
      if (found == worker.stages.end()) {
        found = worker.stages.insert(found, {.stage = action.stage});
      }
      const double share = static_cast<double>(action.span) / steps;
      if (action.op == Op::kForward) found->forwards += share;
      if (action.op == Op::kBackward) found->backwards += share;
      if (action.op == Op::kBackwardInput) found->backwards += share / 2;
      if (action.op == Op::kBackwardWeight) found->backwards += share / 2;
    }
    workers_.push_back(std::move(worker));
  }
}

std::vector<double> RowWork::busy_s(const Costs& costs, const std::vector<int>& recomputed) const {
  std::vector<double> busy;
  for (const WorkerCount& worker : workers_) {
    double seconds = 0;
    for (const StageCount& s : worker.stages) {
      seconds += s.forwards * costs.forward_s[as_index(s.stage)] +
                 s.backwards * costs.backward_s[as_index(s.stage)];
      if (recomputed[as_index(s.stage)] == 0) continue;
      const auto stage = static_cast<std::int16_t>(s.stage);
      seconds += s.forwards * costs.compute({.op = Op::kRecompute, .stage = stage});
    }
    busy.push_back(seconds);
  }
  return busy;
}

double RowWork::least_step_s(const Placement& placement, const Costs& costs,
                             const std::vector<int>& recomputed, bool barrier) const {
  // Of the stages before each one.
  std::vector<double> forwards(1, 0.0), backwards(1, 0.0);
  for (std::size_t stage = 0; stage + 1 < costs.forward_s.size(); ++stage) {
    forwards.push_back(forwards.back() + costs.forward_s[stage]);
    backwards.push_back(backwards.back() + costs.backward_s[stage]);
  }
  const std::vector<double> busy = busy_s(costs, recomputed);
  double most = 0;
  for (std::size_t worker = 0; worker < workers_.size(); ++worker) {
    const WorkerCount& count = workers_[worker];
    const double own_step = costs.step(kAllStages, placement.stages_of(static_cast<int>(worker)));
    // What its last backward sets off in the stages before goes on beside its own step.
    const double after = std::max(own_step, barrier ? backwards[as_index(count.last_stage)] : 0);
    const double before = barrier ? forwards[as_index(count.first_stage)] : 0;
    most = std::max(most, before + busy[worker] + after);
  }
  return most;
}

std::vector<double> least_peaks(const Rows& rows, const MemoryModel& memory,
                                const std::vector<int>& recomputed) {
  std::vector<double> peaks;
  for (std::size_t worker = 0; worker < rows.size(); ++worker) {
    double held = memory.weights[worker] + memory.gradients[worker] + memory.optimizer[worker];
    double peak = held + memory.step_work[worker];
    for (const Action& action : rows[worker]) {
      if (action.op == Op::kStep || action.stage == kAllStages) continue;
      const StageMemory& stage = memory.stages[as_index(action.stage)];
      const bool again = recomputed[as_index(action.stage)] > 0;
      const double stash = again ? stage.kept : stage.stash;
      switch (action.op) {
        case Op::kForward:
          held += action.span * stash;
          peak = std::max(peak, held + (again ? stage.kept_forward_work : stage.forward_work));
          break;
        case Op::kBackward:
        case Op::kBackwardInput: {
          // What is brought back is there during the backward alone, of one micro-batch at a time.
          const double whole = held - stash + stage.stash;
          const double work = std::max(again ? stage.recompute_work : 0, stage.backward_work);
          peak = std::max(peak, whole + work);
          if (action.op == Op::kBackward) held -= action.span * stash;
          break;
        }
        case Op::kBackwardWeight:
          held -= action.span * stash;
          break;
        case Op::kStashWeights:
          held += stage.weights;
          break;
        case Op::kFreeWeights:
          held -= stage.weights;
          break;
        default:
          break;
      }
      peak = std::max(peak, held);
    }
    peaks.push_back(peak);
  }
  return peaks;
}

}  // namespace chimera
