// Which cores of its machine a process uses, where the machine is shared by several of one job.
//
// Left to itself the system moves processes about, and two may meet on one core while another
// idles; in a pipeline all wait for those two. The processes of a machine get whole cores,
// neighbours in the machine's order, so that hyperthreads and mostly caches are not shared.
// It knows one job only: two jobs on a machine that both bind meet on the same cores.
//
// bind_to_share is hwloc's business (the CMake option CHIMERA_HWLOC); the choice is plain
// arithmetic.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace chimera {

// The processing units of a core, its hyperthreads, by the numbers that the system gives them.
using Core = std::vector<int>;

struct CoreChoice {
  std::vector<int> units;  // processing units to bind to; empty: leave the process as it is
  std::string text;        // for the log: "cores 2-3 of 8", or why there is no binding
};

// For the process `local_rank` of the `local_size` that are on this machine. `cores` are those that
// processes may use at all (a container may have fewer than the machine), `bound` the units that
// this process was started on: where some are missing, whoever started it has chosen, and stays
// right. Else as even a share of the cores as can be; none where processes outnumber cores, for
// then the system balances better. Cores are counted as hwloc counts them (lstopo, hwloc-bind).
[[nodiscard]] CoreChoice choose_cores(const std::vector<Core>& cores, const std::set<int>& bound,
                                      int local_rank, int local_size);

// Binds all threads of this process to their share, and with them those that they start later.
// Returns the choice's text; a binding that the system refuses is none, and the text says so. Call
// it once, before there is memory that should be near: a second call would take the binding of the
// first for one from the start.
[[nodiscard]] std::string bind_to_share(int local_rank, int local_size);

}  // namespace chimera
