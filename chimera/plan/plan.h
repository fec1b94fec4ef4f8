// plan: which schedule, D, W, B, f, method, split and recompute to train a model with on a machine,
// best first, and why; and why others cannot be.
//
// A search over what the generators can make, under the devices' memory. Times are the simulator's,
// from a profile; nothing is run. Pure functions: the same request, the same plans.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "chimera/generate/generate.h"
#include "chimera/plan/equation.h"
#include "chimera/plan/layout.h"
#include "chimera/schedule/lower.h"

namespace chimera {

struct PlanRequest {
  Profile profile;
  Machine machine;
  int ranks = 0;  // P
  int batch = 0;  // sequences of one step of all ranks
  ReducePolicy reduce = ReducePolicy::kEagerOpt;
  // A step ends on every worker before the next begins, as where gradients are clipped by their
  // norm over all stages.
  bool barrier = true;
  std::string no_asynchronous = {};  // why asynchronous schedules cannot be; empty: they can
  // What is looked at; all there is unless given.
  std::vector<std::string> schedules = {};
  std::vector<int> stages = {}, micro_batches = {};
  int most = 10;  // plans wanted
};

struct Candidate {
  const Generator* generator = nullptr;          // none where no schedule comes to the question
  Spec spec = {};                                // D, N, f and method
  int width = 1;                                 // W
  int micro_batch = 1;                           // B
  std::vector<int> split = {}, recomputed = {};  // blocks of each stage
};

struct Prediction {
  double step_s = 0;
  double throughput = 0;  // sequences a second
  double bubble_ratio = 0;
  double busy_s = 0;                    // of the busiest worker, computation in one step
  std::vector<double> peak_bytes;       // of each worker
  std::vector<double> limit_bytes;      // planned_limits()
  std::optional<EquationOne> equation;  // of a synchronous schedule, where it was asked for
};

struct Plan {
  Candidate candidate;
  Prediction prediction;
  std::string why;  // one sentence
};

// What a candidate fails at, in the order of looking at it: the later, the nearer to a plan.
enum class Obstacle { kBlocks, kBatch, kSize, kSchedule, kMemory };

struct Refused {
  Candidate candidate;
  Obstacle obstacle = Obstacle::kSchedule;
  std::string reason;       // one sentence
  double least_step_s = 0;  // it would have taken at least so long; 0: not known
  // Where memory is the reason: of the worker that lacks most, and that as so many times its limit.
  double needed_bytes = 0, needed_memories = 0;
};

struct Plans {
  std::vector<Plan> best;        // best first
  std::vector<Refused> refused;  // those that might have been fastest first
  int considered = 0;            // candidates in all
  int simulated = 0;  // others are slower than `best`: their bound says so, blocks spread evenly
};

// Throws Error (kUsage) for a request that makes no sense, and where no plan is left, with the
// reason; where that is memory, with the least that would do.
[[nodiscard]] Plans plan(const PlanRequest& request);

// The program of a candidate; `steps` of them where it is asynchronous.
[[nodiscard]] Program candidate_program(const Candidate& candidate, ReducePolicy reduce, int steps);

[[nodiscard]] Layout candidate_layout(const Candidate& candidate, const Placement& placement);

// A message is with its sender until it is taken, which real workers do somewhat earlier or later
// than simulated ones: so much of its devices' memory a worker is planned to hold at most.
inline constexpr double kPlannedMemory = 0.98;
// Of each worker; infinity where its devices have no limit.
[[nodiscard]] std::vector<double> planned_limits(const Machine& machine, const Layout& layout);

// What the simulator says of one candidate. Throws Error (kUsage) where the schedule cannot be.
[[nodiscard]] Prediction predict(const Candidate& candidate, const PlanRequest& request);

// "chimera doubling f=2, D=4 W=2 B=4"
[[nodiscard]] std::string describe(const Candidate& candidate);

}  // namespace chimera
