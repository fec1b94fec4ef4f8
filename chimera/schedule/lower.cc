// Messages: a forward of stage s receives its input right before it and sends its output right
// after it, where the neighbouring stage lies on another worker; a backward likewise, the other
// way. An action of span k has k messages, so that a message is always one micro-batch and forward
// and backward may have different spans.
//
//   row of P1, D = 4:   1F0          becomes   1RECV_F0 1F0 1SEND_F0
//                       1B0                    1RECV_B0 1B0 1SEND_B0
//
// Reduction: one begin for each stage that the worker holds, whatever its pipes, then one wait each
// after all work, then the step. Eager-opt (section 3.2 and Figure 6) begins a stage's all-reduce
// early only where the worker still idles after the stage's last contribution: launched where no
// bubble follows it would only slow the computation beside it. "A bubble follows" is decided on the
// schedule itself with forward 1 and backward 2, no communication. For Chimera with f = 1 this is
// the authors' rule: the larger stage of a worker iff its id is above D/2 (lower_test.cc).
#include "chimera/schedule/lower.h"

#include <algorithm>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/schedule/walk.h"

namespace chimera {
namespace {

constexpr std::size_t kNever = static_cast<std::size_t>(-1);

Action with_op(const Action& action, Op op, int micro) {
  return {.op = op, .span = 1, .stage = action.stage, .pipe = action.pipe, .micro = micro};
}

Action of_stage(Op op, int stage) { return {.op = op, .stage = static_cast<std::int16_t>(stage)}; }

void check_ids(const Schedule& schedule) {
  const auto refuse = [&](std::size_t worker, const Action& action) {
    throw Error(ErrorCode::kUsage,
                cat("schedule ", schedule.name, ", worker ", worker, ": ", to_string(action),
                    " lies outside ", schedule.stages(), " stages, ", schedule.micros,
                    " micro-batches and ", schedule.pipes(), " pipes"));
  };
  for (std::size_t worker = 0; worker < schedule.rows.size(); ++worker) {
    for (const Action& a : schedule.rows[worker]) {
      if (!is_compute(a.op) || a.stage < 0 || a.stage >= schedule.stages() || a.pipe < 0 ||
          a.pipe >= schedule.pipes() || a.micro < 0 || a.span < 1 ||
          a.micro > schedule.micros - a.span) {
        refuse(worker, a);
      }
    }
  }
}

// Whether stages `a` and `b` of the pipe exist and lie on different workers.
bool crosses(const Placement& placement, int pipe, int a, int b) {
  const int last = placement.stages() - 1;
  if (std::min(a, b) < 0 || std::max(a, b) > last) return false;
  return placement.worker(pipe, a) != placement.worker(pipe, b);
}

// The action with its messages around it.
void append(const Action& action, const Placement& placement, Row& row) {
  const auto messages = [&](Op op) {
    for (int micro = action.micro; micro < action.micro + action.span; ++micro) {
      row.push_back(with_op(action, op, micro));
    }
  };
  const bool before = crosses(placement, action.pipe, action.stage - 1, action.stage);
  const bool after = crosses(placement, action.pipe, action.stage, action.stage + 1);
  if (action.op == Op::kForward && before) messages(Op::kRecvActivation);
  if (yields_gradient(action.op) && after) messages(Op::kRecvGradient);
  row.push_back(action);
  if (action.op == Op::kForward && after) messages(Op::kSendActivation);
  if (yields_gradient(action.op) && before) messages(Op::kSendGradient);
}

// When each compute action ends, with forward 1 and backward 2; rows that wait for ever stop early.
class SlotTimes {
 public:
  explicit SlotTimes(const Schedule& schedule)
      : schedule_(schedule),
        forward_end_(cells(), kNotYet),
        gradient_end_(cells(), kNotYet),
        start_(schedule.rows.size()),
        free_(schedule.rows.size(), 0) {
    walk(schedule.rows,
         [this](std::size_t worker, std::size_t position) { return attempt(worker, position); });
  }

  // Whether the worker idles between the end of the action at `position` (kNever: the start of the
  // row) and the end of its row.
  [[nodiscard]] bool idles_after(std::size_t worker, std::size_t position) const {
    const auto& starts = start_[worker];
    const Row& row = schedule_.rows[worker];
    int end = position == kNever ? 0 : starts.at(position) + duration(row[position]);
    for (std::size_t i = position == kNever ? 0 : position + 1; i < starts.size(); ++i) {
      if (starts[i] > end) return true;
      end = starts[i] + duration(row[i]);
    }
    return false;
  }

  // Whether the walk came to this action at all.
  [[nodiscard]] bool reached(std::size_t worker, std::size_t position) const {
    return position == kNever || position < start_[worker].size();
  }

 private:
  static constexpr int kNotYet = -1;

  static int duration(const Action& action) {
    return (action.op == Op::kBackward ? 2 : 1) * action.span;
  }
  [[nodiscard]] std::size_t cells() const {
    return static_cast<std::size_t>(schedule_.stages()) *
           static_cast<std::size_t>(schedule_.micros);
  }
  [[nodiscard]] std::size_t cell(int stage, int micro) const {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(schedule_.micros) +
           static_cast<std::size_t>(micro);
  }

  // When the inputs of one micro-batch of the action are there; kNotYet where they are not.
  [[nodiscard]] int ready(const Action& action, int micro) const {
    if (action.op == Op::kForward) {
      return action.stage == 0 ? 0 : forward_end_[cell(action.stage - 1, micro)];
    }
    if (yields_gradient(action.op) && action.stage + 1 < schedule_.stages()) {
      return gradient_end_[cell(action.stage + 1, micro)];
    }
    return 0;
  }

  bool attempt(std::size_t worker, std::size_t position) {
    const Action& action = schedule_.rows[worker][position];
    int start = free_[worker];
    for (int micro = action.micro; micro < action.micro + action.span; ++micro) {
      const int input = ready(action, micro);
      if (input == kNotYet) return false;
      start = std::max(start, input);
    }
    start_[worker].push_back(start);
    free_[worker] = start + duration(action);
    for (int micro = action.micro; micro < action.micro + action.span; ++micro) {
      if (action.op == Op::kForward) forward_end_[cell(action.stage, micro)] = free_[worker];
      if (yields_gradient(action.op)) gradient_end_[cell(action.stage, micro)] = free_[worker];
    }
    return true;
  }

  const Schedule& schedule_;
  std::vector<int> forward_end_, gradient_end_;  // by (stage, micro)
  std::vector<std::vector<int>> start_;
  std::vector<int> free_;
};

// After which action of the row each stage's all-reduce may begin: its last contribution.
std::size_t last_contribution(const Row& row, int stage) {
  for (std::size_t i = row.size(); i-- > 0;) {
    if (row[i].stage == stage && contributes(row[i].op)) return i;
  }
  return kNever;
}

struct Begin {
  int stage;
  std::size_t ready;  // position of the last contribution in the schedule's row, or kNever
  bool eager;
};

std::vector<Begin> begins(const Schedule& schedule, std::size_t worker, ReducePolicy policy,
                          const SlotTimes& times) {
  const Row& row = schedule.rows[worker];
  std::vector<Begin> result;
  for (const int stage : schedule.placement.stages_of(static_cast<int>(worker))) {
    const std::size_t ready = last_contribution(row, stage);
    const bool bubble = times.reached(worker, ready) && times.idles_after(worker, ready);
    const bool eager =
        policy == ReducePolicy::kEager || (policy == ReducePolicy::kEagerOpt && bubble);
    result.push_back({stage, ready, eager});
  }
  // In the order in which they become ready; kNever + 1 is 0, the first.
  std::stable_sort(result.begin(), result.end(),
                   [](const Begin& a, const Begin& b) { return a.ready + 1 < b.ready + 1; });
  return result;
}

Row lower_row(const Schedule& schedule, std::size_t worker, const std::vector<Begin>& begins) {
  Row row;
  const auto begin_eager = [&](std::size_t position) {
    for (const Begin& begin : begins) {
      if (begin.eager && begin.ready == position) {
        row.push_back(of_stage(Op::kReduceBegin, begin.stage));
      }
    }
  };
  begin_eager(kNever);
  for (std::size_t i = 0; i < schedule.rows[worker].size(); ++i) {
    append(schedule.rows[worker][i], schedule.placement, row);
    begin_eager(i);
  }
  for (const Begin& begin : begins) {
    if (!begin.eager) row.push_back(of_stage(Op::kReduceBegin, begin.stage));
  }
  for (const Begin& begin : begins) row.push_back(of_stage(Op::kReduceWait, begin.stage));
  row.push_back({.op = Op::kStep, .stage = kAllStages});
  return row;
}

}  // namespace

ReducePolicy reduce_policy(std::string_view name) {
  const auto found = std::find(kReducePolicies.begin(), kReducePolicies.end(), name);
  if (found == kReducePolicies.end()) {
    throw Error(ErrorCode::kUsage, unknown_word("reduce policy", name, kReducePolicies));
  }
  return static_cast<ReducePolicy>(found - kReducePolicies.begin());
}

Program lower(Schedule schedule, ReducePolicy policy) {
  check_ids(schedule);
  const SlotTimes times(schedule);
  Program program;
  for (std::size_t worker = 0; worker < schedule.rows.size(); ++worker) {
    program.rows.push_back(lower_row(schedule, worker, begins(schedule, worker, policy, times)));
  }
  program.source = std::move(schedule);
  return program;
}

}  // namespace chimera
