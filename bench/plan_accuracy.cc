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
#include "chimera/job/train_plan.h"
#include "chimera/plan/layout.h"
#include "chimera/simulate/memory.h"
#include "chimera/simulate/simulate.h"

namespace chimera {
namespace {

Machine this_machine(const Profile& profile, int ranks) {
  Machine machine;
  machine.name = profile.device;
  machine.devices_per_node = ranks;
  if (profile.p2p) machine.within.p2p = profile.p2p->link;
  if (profile.reduce) machine.within.reduce = profile.reduce->link;
  machine.between = machine.within;
  return machine;
}

TrainPlan plan_of(Config config, const Profile& profile, std::int64_t steps) {
  config.train.steps = steps;
  return make_plan(std::move(config), std::stoll(profile.model.at("vocabulary")));
}

Layout layout_of(const TrainPlan& plan) {
  return {.placement = plan.program.source.placement,
          .width = plan.config.pipeline.width,
          .sequences = plan.config.pipeline.micro_batch,
          .split = plan.split,
          .recomputed = plan.recomputed};
}

struct Predicted {
  double seconds = 0;
  std::vector<double> peaks;
};

Predicted predict(const TrainPlan& plan, const Profile& profile) {
  const Layout layout = layout_of(plan);
  const Costs costs = layout_costs(profile, this_machine(profile, plan.ranks()), layout);
  const Timeline timeline = simulate(plan.program, costs);
  Predicted predicted{.seconds = makespan(timeline), .peaks = {}};
  for (const auto& levels : memory_levels(plan.program, timeline, layout_memory(profile, layout))) {
    predicted.peaks.push_back(peak_bytes(levels));
  }
  return predicted;
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
