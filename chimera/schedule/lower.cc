// Messages: a forward of stage s receives its input right before it and sends its output right
// after it, where the neighbouring stage lies on another worker; a backward likewise, the other
// way. An action of span k has k messages, so that a message is always one micro-batch and forward
// and backward may have different spans. A recompute has none and comes before its backward's
// receive, so that it can fill the time in which the gradient is on its way.
//
//   row of P1, D = 4:   1F0          becomes   1RECV_F0 1F0 1SEND_F0
//                       1R0 1B0                1R0 1RECV_B0 1B0 1SEND_B0
//
// Reductions, weight versions and steps are put in by updates.h. Test: lower_test.cc.
#include "chimera/schedule/lower.h"

#include <algorithm>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/schedule/updates.h"

namespace chimera {
namespace {

Action with_op(const Action& action, Op op, int micro) {
  return {.op = op, .span = 1, .stage = action.stage, .pipe = action.pipe, .micro = micro};
}

void check_ids(const Schedule& schedule) {
  const auto refuse = [&](std::size_t worker, const Action& action) {
    throw Error(ErrorCode::kUsage,
                cat("schedule ", schedule.name, ", worker ", worker, ": ", to_string(action),
                    " lies outside ", schedule.stages(), " stages, ", schedule.micros,
                    " micro-batches and ", schedule.pipes(), " pipes"));
  };
  for (std::size_t worker = 0; worker < schedule.rows.size(); ++worker) {
    for (const Action& a : schedule.rows[worker]) {
      if (!in_schedule(a.op) || a.stage < 0 || a.stage >= schedule.stages() || a.pipe < 0 ||
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

Row lower_row(const Schedule& schedule, std::size_t worker, const Updates& updates) {
  Row row = updates.start;
  const auto add = [&row](const std::map<std::size_t, Row>& actions, std::size_t position) {
    const auto found = actions.find(position);
    if (found != actions.end()) row.insert(row.end(), found->second.begin(), found->second.end());
  };
  for (std::size_t i = 0; i < schedule.rows[worker].size(); ++i) {
    add(updates.before, i);
    append(schedule.rows[worker][i], schedule.placement, row);
    add(updates.after, i);
  }
  row.insert(row.end(), updates.end.begin(), updates.end.end());
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
    program.rows.push_back(
        lower_row(schedule, worker, updates_of(schedule, worker, policy, times)));
  }
  program.source = std::move(schedule);
  return program;
}

}  // namespace chimera
