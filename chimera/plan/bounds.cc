#include "chimera/plan/bounds.h"

#include <algorithm>
#include <set>

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

RowMemory::RowMemory(const Rows& rows) {
  for (const Row& row : rows) workers_.push_back(of_row(row));
}

RowMemory::Worker RowMemory::of_row(const Row& row) {
  Worker worker;
  std::vector<Held> now;
  std::set<Moment> seen;
  for (const Action& action : row) {
    if (action.op == Op::kStep || action.stage == kAllStages) continue;
    const auto place = std::ranges::find(worker.stages, action.stage) - worker.stages.begin();
    if (place == std::ssize(worker.stages)) {
      worker.stages.push_back(action.stage);
      now.emplace_back();
    }
    seen.insert({action.op, action.stage, action.span, now});
    Held& held = now[static_cast<std::size_t>(place)];
    switch (action.op) {
      case Op::kForward:
        held.micros += action.span;
        break;
      case Op::kBackward:
      case Op::kBackwardWeight:
        held.micros -= action.span;
        break;
      case Op::kStashWeights:
        ++held.versions;
        break;
      case Op::kFreeWeights:
        --held.versions;
        break;
      default:
        break;
    }
  }
  worker.moments.assign(seen.begin(), seen.end());
  return worker;
}

double RowMemory::peak(const Worker& worker, double resident, const MemoryModel& memory,
                       const std::vector<int>& recomputed) {
  double peak = 0;
  for (const Moment& moment : worker.moments) {
    double held = resident;
    for (std::size_t i = 0; i < moment.before.size(); ++i) {
      const auto stage = as_index(worker.stages[i]);
      const StageMemory& of = memory.stages[stage];
      held += moment.before[i].micros * (recomputed[stage] > 0 ? of.kept : of.stash) +
              moment.before[i].versions * of.weights;
    }
    const StageMemory& stage = memory.stages[as_index(moment.stage)];
    const bool again = recomputed[as_index(moment.stage)] > 0;
    const double stash = again ? stage.kept : stage.stash;
    double more = 0;
    if (moment.op == Op::kForward) {
      more = moment.span * stash + (again ? stage.kept_forward_work : stage.forward_work);
    } else if (moment.op == Op::kBackward || moment.op == Op::kBackwardInput) {
      // What is brought back is there during the backward alone, of one micro-batch at a time.
      const double work = std::max(again ? stage.recompute_work : 0, stage.backward_work);
      more = stage.stash - stash + work;
    } else if (moment.op == Op::kStashWeights) {
      more = stage.weights;
    }
    peak = std::max(peak, held + more);
  }
  return peak;
}

std::vector<double> RowMemory::least_peaks(const MemoryModel& memory,
                                           const std::vector<int>& recomputed) const {
  std::vector<double> peaks;
  for (std::size_t worker = 0; worker < workers_.size(); ++worker) {
    const double resident =
        memory.weights[worker] + memory.gradients[worker] + memory.optimizer[worker];
    peaks.push_back(std::max(resident + memory.step_work[worker],
                             peak(workers_[worker], resident, memory, recomputed)));
  }
  return peaks;
}

}  // namespace chimera
