#include "chimera/cli/train_resume.h"

#include <iostream>

#include "chimera/base/text.h"
#include "chimera/train/resume.h"

namespace chimera {
namespace {

void tell(const std::string& line) { std::cerr << cat("chimera: ", line, "\n") << std::flush; }

}  // namespace

RunCheckpoints::RunCheckpoints(const TrainPlan& plan, Transport& transport, Trainer& trainer,
                               const ResumeOptions& options) {
  const CheckpointOptions checkpoints{
      .program = CHIMERA_VERSION, .data = options.data, .tell = tell, .disk = nullptr};
  std::optional<CheckpointSource> source;
  if (!options.resume.empty()) {
    source = resume(options.resume, plan, transport, trainer, checkpoints);
    if (transport.rank() == 0) {
      std::cout << cat("going on after step ", trainer.steps_done(), " from ", source->path, "\n")
                << std::flush;
    }
  }
  if (plan.config.train.checkpoint_every > 0) {
    checkpointer_.emplace(plan, transport, trainer, checkpoints, source);
  }
}

void RunCheckpoints::after_step() {
  if (checkpointer_) checkpointer_->after_step();
}

void RunCheckpoints::finish() {
  if (checkpointer_) checkpointer_->finish();
}

}  // namespace chimera
