#include "chimera/cli/train_auto.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/cli/job_ranks.h"
#include "chimera/cli/profile_measure.h"
#include "chimera/job/planned.h"
#include "chimera/job/vocabulary.h"

namespace chimera {
namespace {

// A few sizes, so that measuring takes seconds.
constexpr int kLargestSize = 16, kRepeats = 8;

int ranks_for(const AutoOptions& options) {
  if (const auto job = job_of_many()) return ranks_of_job(*job, options.ranks);
  const int ranks = options.ranks.value_or(cores());
  if (ranks >= 1) return ranks;
  throw Error(ErrorCode::kUsage, cat("--ranks is ", ranks, "; expected at least 1"));
}

Profile profile_or_measure(const Config& config, const AutoOptions& options, int ranks) {
  if (!options.inputs.profile.empty() || !config.plan.profile.empty()) {
    return options.inputs.load_profile(&config);
  }
  if (job_of_many()) {
    throw Error(ErrorCode::kUsage,
                "--auto in several processes needs --profile FILE, for all of them must plan the "
                "same; measure it first: chimera profile CONFIG -o FILE");
  }
  const MeasureOptions measure{.sizes = usual_sizes(std::min(config.train.batch, kLargestSize)),
                               .repeats = kRepeats,
                               .ranks = std::min(ranks, cores())};
  return profile_for(config, measure_profile(with_vocabulary(config), measure).value(),
                     "just measured");
}

}  // namespace

void AutoOptions::add(CLI::App& app) {
  app.add_flag("--auto", wanted,
               "Choose schedule, stages, width, micro-batch, split and recompute (chimera plan)");
  app.add_option("--ranks", ranks, "With --auto: how many workers (default: processes, or cores)")
      ->type_name("P");
  inputs.add(app);
}

Config auto_planned(Config config, const AutoOptions& options) {
  if (!options.wanted) {
    const PlanInputs& inputs = options.inputs;
    if (!options.ranks && inputs.profile.empty() && inputs.machine.empty() &&
        inputs.memory.empty()) {
      return config;
    }
    throw Error(ErrorCode::kUsage,
                "--ranks, --profile, --machine and --memory say what to plan with; give --auto, "
                "or leave them out");
  }
  const int ranks = ranks_for(options);
  config = options.inputs.with_memory(std::move(config));
  Profile profile = profile_or_measure(config, options, ranks);
  Machine machine = options.inputs.load_machine(&config, profile, ranks);
  const PlanRequest request = plan_request(config, std::move(profile), std::move(machine), ranks);
  const Plans plans = plan(request);
  const Plan& best = plans.best.front();
  if (const auto job = job_of_many(); !job || job->rank == 0) {
    std::cout << "plan        " << describe(best.candidate) << ", split "
              << join(best.candidate.split, ",") << ": " << best.prediction.step_s << " s a step; "
              << best.why << "\n";
  }
  return options.inputs.planned(std::move(config), best.candidate, request.machine);
}

}  // namespace chimera
