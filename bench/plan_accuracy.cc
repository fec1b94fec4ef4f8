// What a profile predicts for a configuration, as JSON: the time of a step and the peak of each
// worker. plan_accuracy.py compares it with what chimera train measures.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "chimera/job/model_profile.h"
#include "chimera/job/planned.h"
#include "chimera/job/train_plan.h"
#include "chimera/plan/layout.h"
#include "chimera/plan/this_machine.h"
#include "chimera/simulate/memory.h"
#include "chimera/simulate/simulate.h"

namespace chimera {
namespace {

TrainPlan plan_of(Config config, const Profile& profile, std::int64_t steps) {
  config.train.steps = steps;
  return make_plan(std::move(config), std::stoll(profile.model.at("vocabulary")));
}

struct Predicted {
  double seconds = 0;
  std::vector<double> peaks;
};

Predicted predict(const TrainPlan& plan, const Profile& profile) {
  const Layout layout = layout_of(plan);
  const Costs costs = layout_costs(profile, this_machine(profile, plan.ranks()), layout);
  const Timeline timeline = simulate(plan.program, costs);
  return {.seconds = makespan(timeline),
          .peaks = worker_peaks(plan.program, timeline, layout_memory(profile, layout))};
}

// A synchronous program is a step. Of an asynchronous one, a run: what more steps take.
Predicted predict(const Config& config, const Profile& profile) {
  constexpr std::int64_t kSteps = 10;
  const TrainPlan plan = plan_of(config, profile, kSteps);
  Predicted predicted = predict(plan, profile);
  if (!plan.asynchronous) return predicted;
  const Predicted twice = predict(plan_of(config, profile, 2 * kSteps), profile);
  predicted.seconds = (twice.seconds - predicted.seconds) / kSteps;
  return predicted;
}

void run(const std::string& config_path, const std::vector<std::string>& overrides,
         const std::string& profile_path) {
  const Config config = load_config(config_path, overrides);
  const Profile profile = load_profile(profile_path);
  check_profile(profile, config, profile_path);
  const Predicted predicted = predict(config, with_blocks(profile, config.model.layers));
  const nlohmann::ordered_json all = {{"seconds", predicted.seconds},
                                      {"peak_bytes", predicted.peaks}};
  std::cout << all.dump() << "\n";
}

}  // namespace
}  // namespace chimera

int main(int argc, char** argv) {
  CLI::App app("Predicts a step from a profile.");
  std::string config, profile;
  std::vector<std::string> overrides;
  app.add_option("CONFIG", config)->required();
  app.add_option("--profile", profile)->required();
  app.add_option("--set", overrides)->allow_extra_args(false);
  CLI11_PARSE(app, argc, argv);
  try {
    chimera::run(config, overrides, profile);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
