// lower: Schedule -> Program. Puts in what a schedule implies: a message wherever neighbouring
// stages lie on different workers, the all-reduce of each stage's gradients, and the step.
#pragma once

#include <array>
#include <string_view>

#include "chimera/schedule/schedule.h"

namespace chimera {

// When a stage's all-reduce begins (Chimera, section 3.2).
enum class ReducePolicy {
  kAtEnd,     // after the worker's last compute action
  kEager,     // right after the stage's last contribution
  kEagerOpt,  // eager only where a bubble follows on that worker; else at the end
};

inline constexpr std::array<std::string_view, 3> kReducePolicies = {"at-end", "eager", "eager-opt"};

// By name; throws Error that lists the names.
[[nodiscard]] ReducePolicy reduce_policy(std::string_view name);

// Total, also for a schedule that breaks rules: each action is lowered by itself, so that verify
// can show what is wrong with the result. Only ids out of range are refused (throws Error).
[[nodiscard]] Program lower(Schedule schedule, ReducePolicy policy = ReducePolicy::kEagerOpt);

}  // namespace chimera
