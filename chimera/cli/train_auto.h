// chimera train --auto: plans, then trains as planned.
#pragma once

#include <optional>

#include "chimera/cli/plan_options.h"
#include "chimera/job/config.h"

namespace chimera {

struct AutoOptions {
  bool wanted = false;  // --auto
  std::optional<int> ranks;
  PlanInputs inputs;

  void add(CLI::App& app);
};

// The configuration with the pipeline that is planned to be fastest, which is told on standard
// output by the process that speaks. Without a profile it measures one, which only threads of one
// process can. Every process of a run plans the same. Throws Error.
[[nodiscard]] Config auto_planned(Config config, const AutoOptions& options);

}  // namespace chimera
