// The steps of a training run on each rank, and what is left of them on rank 0.
#pragma once

#include "chimera/cli/train_log.h"
#include "chimera/cli/train_progress.h"
#include "chimera/cli/train_resume.h"
#include "chimera/cli/train_summary.h"
#include "chimera/data/dataset.h"
#include "chimera/job/train_plan.h"
#include "chimera/runtime/launch.h"
#include "chimera/train/trainer.h"
#include "chimera/transport/transport.h"

namespace chimera {

// One for all ranks of a process. Ranks share nothing but constants: what rank 0 reports it has
// from its transport, whether the ranks are threads or processes.
class Run {
 public:
  // All outlive the run. Memory over time is noted only where someone will look at it: it costs
  // time.
  Run(const TrainPlan& plan, const Dataset& dataset, StepLog& log, bool samples_memory,
      ResumeOptions resume = {});
  ~Run();  // leaves the progress bar on its line

  // Called by each rank's thread.
  void run_rank(const Rank& rank, TrainerOptions options);

  // Where rank 0 ran, after it.
  [[nodiscard]] Outcome take_outcome() { return std::move(outcome_); }

 private:
  [[nodiscard]] bool is_drawn(std::int64_t step, std::int64_t first) const;
  [[nodiscard]] double predicted_bubble_ratio(const Timeline& step) const;
  void record(StepReport& report);

  const TrainPlan& plan_;
  const Dataset& dataset_;
  const ResumeOptions resume_;
  StepLog& log_;  // this and the rest are rank 0's
  bool samples_memory_;
  TrainProgress progress_;
  std::int64_t first_step_ = 0;
  Outcome outcome_;
};

}  // namespace chimera
