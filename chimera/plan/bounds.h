// What an order alone says of a layout, before it is simulated: how long a step takes at least, and
// what each worker holds at least. Cheap, so that most candidates need no simulation.
#pragma once

#include <compare>
#include <vector>

#include "chimera/schedule/schedule.h"
#include "chimera/simulate/costs.h"
#include "chimera/simulate/memory.h"

namespace chimera {

// How much work the rows are: counted once, then multiplied by any costs.
class RowWork {
 public:
  // A schedule's rows, of `steps` steps.
  RowWork(const Rows& rows, int steps);

  // No worker's computation and step, of one step, take less. With a `barrier` between steps, the
  // way of the first micro-batch to the worker and that of the last from it count, too.
  // `recomputed`: for each stage, whether its forwards are run again.
  [[nodiscard]] double least_step_s(const Placement& placement, const Costs& costs,
                                    const std::vector<int>& recomputed, bool barrier) const;

  // Computation alone, of each worker, of one step.
  [[nodiscard]] std::vector<double> busy_s(const Costs& costs,
                                           const std::vector<int>& recomputed) const;

 private:
  struct StageCount {
    int stage = 0;
    double forwards = 0, backwards = 0;  // of one step
  };
  struct WorkerCount {
    std::vector<StageCount> stages;
    int first_stage = 0, last_stage = 0;  // of its first and its last action
  };
  std::vector<WorkerCount> workers_;
};

// What the rows hold: what a worker has in hand comes again and again, so it is found once, then
// multiplied by any sizes.
class RowMemory {
 public:
  // Rows of a schedule or a program; a stage whose forwards are to be recomputed need not have
  // recompute actions yet.
  explicit RowMemory(const Rows& rows);

  // The most bytes that each worker holds as its row goes, messages left out; memory_levels of a
  // timeline says as much or a little more.
  [[nodiscard]] std::vector<double> least_peaks(const MemoryModel& memory,
                                                const std::vector<int>& recomputed) const;

 private:
  struct Held {
    int micros = 0, versions = 0;  // that wait for their backwards; of weights that are kept

    friend auto operator<=>(const Held&, const Held&) = default;
  };
  struct Moment {
    Op op = Op::kForward;
    int stage = 0, span = 0;
    std::vector<Held> before;  // of each of the worker's stages, before the action

    friend auto operator<=>(const Moment&, const Moment&) = default;
  };
  struct Worker {
    std::vector<int> stages;
    std::vector<Moment> moments;  // each once
  };
  static Worker of_row(const Row& row);
  static double peak(const Worker& worker, double resident, const MemoryModel& memory,
                     const std::vector<int>& recomputed);

  std::vector<Worker> workers_;
};

}  // namespace chimera
