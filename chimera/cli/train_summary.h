// What a training run says before and after, and its timeline as a file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "chimera/cli/train_progress.h"
#include "chimera/job/train_plan.h"
#include "chimera/model/safetensors.h"
#include "chimera/simulate/timeline.h"
#include "chimera/train/trainer.h"

namespace chimera {

// What is left of a run. Lists are by rank.
struct Outcome {
  std::vector<StepLine> lines;
  StepReport drawn;             // the last step; of an asynchronous run one in its middle
  std::vector<int> peak_stash;  // by rank
  std::vector<double> peak_bytes;
  std::vector<std::vector<Level>> memory;  // of the drawn step
  NamedTensors weights;
};

// To standard output. `processes` says where the ranks are; empty where they are threads.
void introduce(const TrainPlan& plan, std::int64_t windows, const std::string& processes);
void summarise(const TrainPlan& plan, const Outcome& outcome);

// Predicted over measured, of the first group: a page, or trace events where the name ends in
// .json. Throws Error (kIo).
void write_timeline(const std::string& path, const TrainPlan& plan, const Outcome& outcome);

}  // namespace chimera
