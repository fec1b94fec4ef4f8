// The plan of a training run: everything that follows from the configuration before a tensor
// exists, checked. What cannot work is refused here, before anything starts.
#pragma once

#include <vector>

#include "chimera/data/batch.h"
#include "chimera/model/parameters.h"
#include "chimera/schedule/verify.h"
#include "chimera/train/config.h"

namespace chimera {

struct TrainPlan {
  Config config;  // its model's vocabulary filled in
  Program program;
  Verdict verdict;  // without violations
  std::vector<int> split;
  Cut cut;
  std::vector<ParameterSpec> parameters;  // of the whole model, in global order

  [[nodiscard]] int workers() const { return program.source.workers(); }
  [[nodiscard]] int ranks() const { return workers() * config.pipeline.width; }

  // The lowest rank that holds the parameter: it speaks for it in norms and files.
  [[nodiscard]] int owner(const ParameterSpec& parameter) const;
};

// `data_vocabulary` is the data's. Throws Error (kUsage).
[[nodiscard]] TrainPlan make_plan(Config config, std::int64_t data_vocabulary);

}  // namespace chimera
