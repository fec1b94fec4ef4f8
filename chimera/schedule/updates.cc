// Rounds. The micro-batches whose gradients go into one step of a stage are a round. A schedule
// that says no step has one round for each stage, and one step of all stages after all work;
// otherwise each step ends a round of its stage. A round's gradient is reduced once: one begin, one
// wait before the step.
//
// Eager-opt (section 3.2 and Figure 6) begins a stage's all-reduce early only where the worker
// still idles after the stage's last contribution: launched where no bubble follows it would only
// slow the computation beside it. "A bubble follows" is decided on the schedule itself
// (slot_times.h). For Chimera with f = 1 this is the authors' rule: the larger stage of a worker
// iff its id is above D/2 (lower_test.cc). Where a step comes on the way its worker waits for it
// soon, so there eager-opt is eager.
//
// Versions. A stage's weights after k of its steps are its version k; an action of age a reads
// version k - a. A version that is read after the next step must be kept: it is stashed right
// before that step, and freed right after its last reader.
//
//   stage 2 of 4, PipeDream:   2F1 2B0 2STASH 2S0 2F2 2B1~1 2FREE~1 2STASH 2S1 ...
#include "chimera/schedule/updates.h"

#include <algorithm>
#include <vector>

namespace chimera {
namespace {

constexpr std::size_t kNever = SlotTimes::kStart;

Action of_stage(Op op, int stage, std::int16_t age = 0) {
  return {.op = op, .stage = static_cast<std::int16_t>(stage), .age = age};
}

bool is_step_of(const Action& action, int stage) {
  return action.op == Op::kStep && action.stage == stage;
}

struct Round {
  int stage;
  std::size_t
      ready;         // position of the last contribution in the schedule's row; without any, of the
                     // step before; without that, kNever
  std::size_t step;  // position of the step that ends it; the row's size for the one at its end
};

void add_rounds(const Row& row, int stage, bool stepped, std::vector<Round>& rounds) {
  std::size_t ready = kNever;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (row[i].stage == stage && contributes(row[i].op)) ready = i;
    if (!is_step_of(row[i], stage)) continue;
    rounds.push_back({stage, ready, i});
    ready = i;
  }
  if (!stepped) rounds.push_back({stage, ready, row.size()});
}

// In the order in which they become ready; kNever + 1 is 0, the first.
std::vector<Round> rounds_of(const Schedule& schedule, std::size_t worker, bool stepped) {
  std::vector<Round> rounds;
  for (const int stage : schedule.placement.stages_of(static_cast<int>(worker))) {
    add_rounds(schedule.rows[worker], stage, stepped, rounds);
  }
  std::stable_sort(rounds.begin(), rounds.end(),
                   [](const Round& a, const Round& b) { return a.ready + 1 < b.ready + 1; });
  return rounds;
}

void add_reductions(const std::vector<Round>& rounds, const Schedule& schedule, std::size_t worker,
                    ReducePolicy policy, const SlotTimes& times, Updates& updates) {
  const std::size_t size = schedule.rows[worker].size();
  const auto before_step = [&](const Round& round) -> Row& {
    return round.step == size ? updates.end : updates.before[round.step];
  };
  for (const Round& round : rounds) {
    const bool eager = policy == ReducePolicy::kEager ||
                       (policy == ReducePolicy::kEagerOpt &&
                        (round.step < size || times.idles_after(worker, round.ready)));
    Row& place = !eager                  ? before_step(round)
                 : round.ready == kNever ? updates.start
                                         : updates.after[round.ready];
    place.push_back(of_stage(Op::kReduceBegin, round.stage));
  }
  for (const Round& round : rounds) {
    before_step(round).push_back(of_stage(Op::kReduceWait, round.stage));
  }
}

void add_versions(const Row& row, int stage, Updates& updates) {
  std::map<int, std::size_t> last_read;  // of each version
  int version = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (is_step_of(row[i], stage)) ++version;
    if (is_compute(row[i].op) && row[i].stage == stage) last_read[version - row[i].age] = i;
  }
  version = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (!is_step_of(row[i], stage)) continue;
    const auto read = last_read.find(version++);
    if (read != last_read.end() && read->second > i) {
      updates.before[i].push_back(of_stage(Op::kStashWeights, stage));
    }
  }
  for (const auto& [read, position] : last_read) {
    const std::int16_t age = row[position].age;
    if (age > 0) updates.after[position].push_back(of_stage(Op::kFreeWeights, stage, age));
  }
}

}  // namespace

bool has_steps(const Schedule& schedule) {
  return std::any_of(schedule.rows.begin(), schedule.rows.end(), [](const Row& row) {
    return std::any_of(row.begin(), row.end(),
                       [](const Action& action) { return action.op == Op::kStep; });
  });
}

Program repeated(const Program& program, int times) {
  Program whole = program;
  for (std::size_t worker = 0; worker < program.rows.size(); ++worker) {
    const Row& once = program.rows[worker];
    Row& row = whole.rows[worker];
    for (int i = 1; i < times; ++i) row.insert(row.end(), once.begin(), once.end());
  }
  return whole;
}

Updates updates_of(const Schedule& schedule, std::size_t worker, ReducePolicy policy,
                   const SlotTimes& times) {
  const bool stepped = has_steps(schedule);
  Updates updates;
  add_reductions(rounds_of(schedule, worker, stepped), schedule, worker, policy, times, updates);
  if (!stepped) {
    updates.end.push_back({.op = Op::kStep, .stage = kAllStages});
    return updates;
  }
  for (const int stage : schedule.placement.stages_of(static_cast<int>(worker))) {
    add_versions(schedule.rows[worker], stage, updates);
  }
  return updates;
}

}  // namespace chimera
