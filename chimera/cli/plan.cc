// chimera plan: which schedule and layout to train a model with, and why.
#include "chimera/plan/plan.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chimera/base/error.h"
#include "chimera/base/file.h"
#include "chimera/base/text.h"
#include "chimera/cli/job_ranks.h"
#include "chimera/cli/mode.h"
#include "chimera/cli/overwriting.h"
#include "chimera/cli/plan_options.h"
#include "chimera/cli/plan_table.h"
#include "chimera/cli/terminal.h"
#include "chimera/job/planned.h"

namespace chimera {
namespace {

struct PlanOptions {
  std::string config;
  std::vector<std::string> overrides;
  PlanInputs inputs;
  int ranks = 0;
  std::optional<int> batch;
  std::vector<std::string> schedules;
  std::vector<int> stages, micro_batches;
  bool synchronous = false;
  int top = 10;
  bool json = false;
  std::string output;
};

PlanRequest request_of(const PlanOptions& options, const Config* config) {
  Profile profile = options.inputs.load_profile(config);
  Machine machine = options.inputs.load_machine(config, profile, options.ranks);
  const bool has_config = config != nullptr;
  if (!has_config && !options.batch) {
    throw Error(ErrorCode::kUsage, "--batch is not given, and no configuration says it");
  }
  PlanRequest request = plan_request(has_config ? *config : Config{}, std::move(profile),
                                     std::move(machine), options.ranks);
  if (!has_config) {
    request.barrier = false;
    request.no_asynchronous.clear();
  }
  if (options.synchronous) request.no_asynchronous = "--synchronous asks for exact gradients";
  if (options.batch) request.batch = *options.batch;
  request.schedules = options.schedules;
  request.stages = options.stages;
  request.micro_batches = options.micro_batches;
  request.most = options.top;
  return request;
}

// A configuration that trains as the best plan says.
std::string plan_config(Config config, const PlanOptions& options, const PlanRequest& request,
                        const Plan& best) {
  config.train.batch = request.batch;
  config.plan.profile = options.inputs.profile_path(&config);
  config.plan.machine = options.inputs.machine_name(&config);
  return cat("# ", describe(best.candidate), " on ", request.machine.name, ": predicted ",
             best.prediction.step_s, " s a step,\n# ", best.prediction.throughput,
             " sequences a second.\n\n",
             print(options.inputs.planned(std::move(config), best.candidate, request.machine)));
}

// Times are of ranks that have a core each.
void note_shared_cores(int ranks) {
  if (ranks <= cores()) return;
  std::cerr << "chimera: note: this machine has " << cores() << " cores, which " << ranks
            << " ranks would share; the times are those of as many cores as ranks\n";
}

int run_plan(const PlanOptions& options) {
  refuse_job_of_many("plan");
  std::optional<Config> config;
  if (!options.config.empty()) {
    config = options.inputs.with_memory(load_config(options.config, options.overrides));
  }
  if (!config && !options.output.empty()) {
    throw Error(ErrorCode::kUsage,
                "-o writes a configuration to train with, but none was given to begin with; name "
                "one: chimera plan CONFIG ...");
  }
  refuse_overwriting("--output", options.output,
                     options.inputs.files(options.config, config ? &*config : nullptr));
  if (!options.output.empty()) check_writable(options.output);
  const PlanRequest request = request_of(options, config ? &*config : nullptr);
  const Plans plans = plan(request);
  if (options.inputs.machine_name(config ? &*config : nullptr) == kThisMachine) {
    note_shared_cores(options.ranks);
  }
  std::cout << (options.json ? plan_json(plans, request)
                             : plan_table(plans, {.columns = terminal_columns()}));
  if (!options.output.empty()) {
    write_file(options.output, plan_config(*config, options, request, plans.best.front()));
  }
  return kOk;
}

constexpr const char* kPlanFooter =
    "All schedules are looked at, with every D x W = P, every B that was profiled, every number "
    "of\n"
    "pipes and method, the split that suits each, and as little recompute as memory asks for.\n"
    "Times are simulated; 'eq. 1' is the closed form of Chimera's paper beside them. Workers are\n"
    "planned to hold at most 98 % of what their devices have. Asynchronous schedules train by "
    "other\n"
    "rules; they take part where the configuration can be trained so (train.clip=0,\n"
    "model.tied=false) and not with --synchronous.\n"
    "\n"
    "Without CONFIG the profile's own model is planned for, without a barrier between steps.\n"
    "\n"
    "Examples:\n"
    "  chimera profile examples/demo.toml -o demo_profile.toml\n"
    "  chimera plan examples/demo.toml --profile demo_profile.toml --ranks 2\n"
    "  chimera plan examples/demo.toml --profile demo_profile.toml --ranks 8 --machine "
    "cluster.toml "
    "-o plan.toml\n"
    "  chimera train plan.toml";

}  // namespace

RunMode add_plan(CLI::App& app) {
  const auto options = std::make_shared<PlanOptions>();
  app.add_option("config", options->config, "The configuration to plan for")->type_name("CONFIG");
  app.add_option("--set", options->overrides, "Override a key, as train.batch=64")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  options->inputs.add(app);
  app.add_option("--ranks", options->ranks, "P: devices to use")->required()->type_name("P");
  app.add_option("--batch", options->batch,
                 "Sequences of a step (default: the configuration's train.batch)")
      ->type_name("N");
  app.add_option("--schedules", options->schedules, "Look at these alone, as chimera,1f1b")
      ->delimiter(',')
      ->type_name("NAMES");
  app.add_option("--stages", options->stages, "D: these alone")->delimiter(',')->type_name("D");
  app.add_option("--micro-batches", options->micro_batches, "B: these alone")
      ->delimiter(',')
      ->type_name("B");
  app.add_flag("--synchronous", options->synchronous, "Leave asynchronous schedules out");
  app.add_option("--top", options->top, "How many plans to show (default 10)")->type_name("K");
  app.add_flag("--json", options->json, "Print all of it as JSON (docs/formats.md)");
  app.add_option("-o,--output", options->output,
                 "Write the best plan as a configuration for 'chimera train'")
      ->type_name("FILE");
  app.footer(kPlanFooter);
  return [options] { return run_plan(*options); };
}

}  // namespace chimera
