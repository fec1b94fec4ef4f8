// One step of a schedule on every rank, its stages waiting instead of computing, and how long it
// took: what the measurements share. Ranks are threads or, started with mpirun, processes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "chimera/runtime/waiting_stage.h"
#include "chimera/schedule/schedule.h"
#include "chimera/transport/transport.h"

namespace chimera {

struct StepSetting {
  const Program& program;
  int groups = 1;  // W
  std::function<WaitingStageSpec(int stage)> stage = {};

  [[nodiscard]] int ranks() const { return groups * program.source.workers(); }
};

// Called by every rank. Runs the row twice and returns, on all ranks, the second time from the
// first start to the last end of any worker, the optimizer's (empty) step left out: the first is
// for allocations and page faults. Processes must be on one machine, for they share its clock.
[[nodiscard]] double run_step(const StepSetting& setting, Transport& transport);

// Adds up one number of each rank into its place; the same on all ranks.
[[nodiscard]] std::vector<double> gather_numbers(Transport& transport, double mine);

// Where the ranks are.
class Ranks {
 public:
  virtual ~Ranks() = default;
  // Runs the body on so many ranks, which must be all there are if they are processes. Throws what
  // a rank throws.
  virtual void run(int ranks, const std::function<void(Transport&)>& body) = 0;
  // Whether this process prints.
  [[nodiscard]] virtual bool speaks() const = 0;
};

// "local" or "mpi"; throws Error (kUsage) for others, and where there is no MPI.
[[nodiscard]] std::unique_ptr<Ranks> make_ranks(const std::string& transport);

[[nodiscard]] double median(std::vector<double> values);

}  // namespace chimera
