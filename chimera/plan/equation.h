// The paper's performance model (Chimera, section 3.4, equation 1), a closed form beside the
// simulator's exact answer:
//
//   T = (F_t + Comm_p2p) C_f + (B_t + Comm_p2p) C_b + max_i Comm_unoverlapped(i)
//
// C_f and C_b count the forwards and backwards on the critical path of equal stages; F_t and B_t
// are the largest stage's. What it leaves out, the simulator has: stages that differ, links that
// differ, messages that wait for each other. Pure functions.
#pragma once

#include "chimera/schedule/schedule.h"
#include "chimera/simulate/costs.h"

namespace chimera {

struct CriticalPath {
  double forwards = 0, backwards = 0;  // C_f, C_b
};

// Of one step with B = 2F (3F where it recomputes) and nothing else that costs. The makespan is
// C_f F + C_b B, so the counts are its derivatives.
[[nodiscard]] CriticalPath critical_path(const Program& program);

struct EquationOne {
  double forward_s = 0, backward_s = 0;  // F_t, B_t: recompute is part of B_t
  double p2p_s = 0;                      // alpha + beta L
  CriticalPath path;
  double unoverlapped_s = 0;
  double step_s = 0;  // the optimizer's, which the paper leaves out
  double seconds = 0;
};

// Of a synchronous program.
//
// Comm_unoverlapped: which part of its all-reduces no idle time of a worker hides. The paper leaves
// open how two of them share the region between the worker's last backward and its first forward of
// the next step (region c). Here, as in the simulator, a worker's all-reduces go one after the
// other, in the order in which their gradients are complete: with region ab from the completion of
// the first to the worker's end,
//
//   unoverlapped = max(0, max(0, A_first - ab) + A_second - c).
//
// Where a machine does several at once (Costs::reduces_at_once), each has the region to itself.
[[nodiscard]] EquationOne equation_one(const Program& program, const Costs& costs);

}  // namespace chimera
