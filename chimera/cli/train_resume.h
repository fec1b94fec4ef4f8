// The checkpoints of a training run: what it goes on from, and what it leaves on the way.
#pragma once

#include <optional>
#include <string>

#include "chimera/job/train_plan.h"
#include "chimera/train/checkpointer.h"
#include "chimera/train/trainer.h"
#include "chimera/transport/transport.h"

namespace chimera {

// What the user asked for, and what a checkpoint says of the data.
struct ResumeOptions {
  std::string resume = {};  // a step's folder or "latest"; empty: from the beginning
  DataIdentity data = {};
};

// One a rank; all call the same functions in the same order.
class RunCheckpoints {
 public:
  // Fills the trainer if the run is to go on from somewhere. Throws Error.
  RunCheckpoints(const TrainPlan& plan, Transport& transport, Trainer& trainer,
                 const ResumeOptions& options);

  // After each step, and after the last one.
  void after_step();
  void finish();

 private:
  std::optional<Checkpointer> checkpointer_;
};

}  // namespace chimera
