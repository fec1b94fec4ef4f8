// The plan of a training run: everything that follows from the configuration before a tensor
// exists, checked. What cannot work is refused here, before anything starts.
#pragma once

#include <optional>
#include <vector>

#include "chimera/data/batch.h"
#include "chimera/job/config.h"
#include "chimera/schedule/verify.h"
#include "chimera/shape/parameters.h"
#include "chimera/simulate/memory.h"

namespace chimera {

struct TrainPlan {
  Config config;  // its model's vocabulary filled in
  // Of one step, or, where steps come on the way (asynchronous schedules), of the whole run, or of
  // a segment of it from one checkpoint to the next: it is not the same work over and over, for no
  // step but the last ends with an empty pipeline.
  Program program;
  bool asynchronous = false;
  // An asynchronous run repeats itself from step to step, so a short one is proved and timed in
  // place of a long one. Of a synchronous program: nothing.
  std::optional<Program> short_run;
  Verdict verdict;  // of the program, or of the short run: without violations
  std::vector<int> split;
  std::vector<int> recomputed;  // of each stage's blocks, those whose activations are not kept
  Cut cut;
  MemoryModel memory;                     // of the largest micro-batch
  std::vector<double> peak_bytes;         // of each worker, predicted
  std::vector<ParameterSpec> parameters;  // of the whole model, in global order

  [[nodiscard]] int workers() const { return program.source.workers(); }
  [[nodiscard]] int ranks() const { return workers() * config.pipeline.width; }

  // What was proved, and what predictions are made on.
  [[nodiscard]] const Program& proved() const { return short_run ? *short_run : program; }

  // The lowest rank that holds the parameter: it speaks for it in norms and files.
  [[nodiscard]] int owner(const ParameterSpec& parameter) const;
};

// `data_vocabulary` is the data's. Throws Error (kUsage).
[[nodiscard]] TrainPlan make_plan(Config config, std::int64_t data_vocabulary);

}  // namespace chimera
