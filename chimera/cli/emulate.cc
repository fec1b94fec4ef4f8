// chimera emulate: executes a plan with the real runtime on threads of this machine, stages waiting
// as long as the profile says, and compares with what was predicted.
#include "chimera/runtime/emulate.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "chimera/base/error.h"
#include "chimera/base/file.h"
#include "chimera/base/text.h"
#include "chimera/cli/job_ranks.h"
#include "chimera/cli/mode.h"
#include "chimera/cli/overwriting.h"
#include "chimera/cli/plan_options.h"
#include "chimera/cli/text_table.h"
#include "chimera/generate/generate.h"
#include "chimera/job/memory_plan.h"
#include "chimera/job/planned.h"
#include "chimera/job/train_plan.h"
#include "chimera/job/vocabulary.h"
#include "chimera/simulate/render.h"
#include "chimera/simulate/simulate.h"

namespace chimera {
namespace {

struct EmulateOptions {
  std::string config;
  std::vector<std::string> overrides;
  PlanInputs inputs;
  std::optional<int> groups;
  std::optional<int> steps;
  std::optional<double> stretch;
  std::string timeline;
  bool json = false;
};

constexpr int kSteps = 5;

// An asynchronous plan is one program of all its steps: unless asked for, as many as fill it.
Config with_steps(Config config, const EmulateOptions& options) {
  const auto known = std::ranges::find(generators(), config.pipeline.schedule, &Generator::name);
  if (known == generators().end() || !known->asynchronous) return config;
  config.train.steps = options.steps.value_or(kSteps - 1 + 2 * config.pipeline.stages);
  config.train.checkpoint_every = 0;
  return config;
}

struct Compared {
  double predicted_s = 0;
  std::vector<double> predicted_bytes, limit_bytes;
  Timeline predicted;
  Emulation measured;
  int groups = 0, steps = 0;
};

// As many groups as are needed to see all-reduces of several, if threads allow: groups are alike.
int groups_of(const EmulateOptions& options, const TrainPlan& plan) {
  const int width = plan.config.pipeline.width;
  if (options.groups) {
    if (*options.groups >= 1 && *options.groups <= width) return *options.groups;
    throw Error(ErrorCode::kUsage, cat("--groups is ", *options.groups,
                                       "; expected from 1 to the plan's pipeline.width, ", width));
  }
  constexpr int kThreads = 64;
  return std::clamp(kThreads / plan.workers(), 1, width);
}

// What a worker's devices hold, or what the plan allows it, which may be less.
std::vector<double> limits_of(const TrainPlan& plan, const Machine& machine, const Layout& layout) {
  std::vector<double> limits = layout_limits(machine, layout);
  const std::vector<double> allowed = memory_limits(plan.config.pipeline.memory, plan.workers());
  for (std::size_t worker = 0; worker < allowed.size(); ++worker) {
    limits[worker] = std::min(limits[worker], allowed[worker]);
  }
  return limits;
}

Compared compare_plan(const EmulateOptions& options, const TrainPlan& plan, const Profile& profile,
                      const Machine& machine) {
  const Program& program = plan.program;
  const Layout layout = layout_of(plan);
  const Costs costs = layout_costs(profile, machine, layout);
  const MemoryModel memory = layout_memory(profile, layout);
  Compared compared;
  compared.groups = groups_of(options, plan);
  compared.steps =
      plan.asynchronous ? program.source.micros / plan.cut.micros : options.steps.value_or(kSteps);
  const EmulationSetting setting{.program = program,
                                 .costs = costs,
                                 .memory = memory,
                                 .groups = compared.groups,
                                 .steps = compared.steps,
                                 .barrier = plan.config.train.clip != 0,
                                 .micros_per_step = plan.asynchronous ? plan.cut.micros : 0,
                                 .stretch = options.stretch.value_or(0)};
  compared.predicted = simulate(program, costs);
  compared.predicted_bytes = worker_peaks(program, compared.predicted, memory);
  compared.predicted_s = predicted_step_s(setting);
  compared.limit_bytes = limits_of(plan, machine, layout);
  compared.measured = emulate(setting);
  return compared;
}

// Whether the worker held more than it may.
bool is_above(const Compared& compared, std::size_t worker) {
  return compared.measured.peak_bytes[worker] > compared.limit_bytes[worker];
}

bool fits(const Compared& compared) {
  for (std::size_t worker = 0; worker < compared.limit_bytes.size(); ++worker) {
    if (is_above(compared, worker)) return false;
  }
  return true;
}

std::string milliseconds(double seconds) { return fixed_text(1e3 * seconds, 2) + " ms"; }

std::string ratio_text(double measured, double predicted) {
  if (predicted == 0) return measured == 0 ? "1.000" : "";
  return fixed_text(measured / predicted, 3);
}

void print_comparison(const Compared& compared, const TrainPlan& plan, const Machine& machine) {
  std::cout << plan.program.source.name << " on " << machine.name << ": " << plan.workers()
            << " workers x " << compared.groups << " groups, each second stretched to "
            << compared.measured.stretch << "\n\n";
  const auto line = [](std::string_view what, const std::string& predicted,
                       const std::string& measured, const std::string& ratio,
                       const std::string& note = "") {
    constexpr std::size_t kName = 10, kWide = 12;
    std::cout << without_blanks_at_the_end(pad_right(std::string(what), kName) +
                                           pad_left(predicted, kWide) + pad_left(measured, kWide) +
                                           pad_left(ratio, kWide) + note);
  };
  line("", "predicted", "measured", "ratio");
  line("step", milliseconds(compared.predicted_s), milliseconds(compared.measured.step_s),
       ratio_text(compared.measured.step_s, compared.predicted_s));
  for (std::size_t worker = 0; worker < compared.predicted_bytes.size(); ++worker) {
    const double predicted = compared.predicted_bytes[worker];
    const double measured = compared.measured.peak_bytes[worker];
    line(cat("P", worker), bytes_text(predicted), bytes_text(measured),
         ratio_text(measured, predicted),
         is_above(compared, worker)
             ? cat("  more than its ", bytes_text(compared.limit_bytes[worker]))
             : "");
  }
  if (!fits(compared)) std::cout << "\nThe plan does not fit: training would run out of memory.\n";
  if (compared.measured.lag_s > 0.02 * compared.measured.step_s) {
    std::cout << "\nThis machine was late by up to " << milliseconds(compared.measured.lag_s)
              << " at the end of a step; a larger --stretch measures better.\n";
  }
}

void print_comparison_json(const Compared& compared, const TrainPlan& plan) {
  const nlohmann::ordered_json json = {{"schedule", plan.program.source.name},
                                       {"workers", plan.workers()},
                                       {"groups", compared.groups},
                                       {"steps", compared.steps},
                                       {"stretch", compared.measured.stretch},
                                       {"predicted_step_s", compared.predicted_s},
                                       {"measured_step_s", compared.measured.step_s},
                                       {"predicted_peak_bytes", compared.predicted_bytes},
                                       {"measured_peak_bytes", compared.measured.peak_bytes},
                                       {"limit_bytes", compared.limit_bytes},
                                       {"lag_s", compared.measured.lag_s}};
  std::cout << json.dump(2) << "\n";
}

void write_tracks(const std::string& path, const Compared& compared, const TrainPlan& plan) {
  const std::vector<Track> tracks = {{.name = "predicted", .timeline = compared.predicted},
                                     {.name = "emulated", .timeline = compared.measured.timeline}};
  const Placement& placement = plan.program.source.placement;
  write_file(path, path.ends_with(".json")
                       ? draw_trace(tracks, placement)
                       : draw_html(tracks, placement, plan.program.source.name));
}

void check_emulate_options(const EmulateOptions& options, const Config& config) {
  const auto refuse = [](std::string_view option, double value, std::string_view expected) {
    throw Error(ErrorCode::kUsage, cat(option, " is ", value, "; expected ", expected));
  };
  if (options.steps && *options.steps < 2) {
    refuse("--steps", *options.steps, "a whole number from 2");
  }
  if (options.stretch && !(*options.stretch >= 1e-4 && *options.stretch <= 1e4)) {
    refuse("--stretch", *options.stretch, "a number from 0.0001 to 10000");
  }
  if (options.timeline.empty()) return;
  if (!options.timeline.ends_with(".html") && !options.timeline.ends_with(".json")) {
    throw Error(ErrorCode::kUsage, cat("--timeline is '", options.timeline,
                                       "'; expected a name that ends in .html or .json"));
  }
  refuse_overwriting("--timeline", options.timeline, options.inputs.files(options.config, &config));
  check_writable(options.timeline);
}

int run_emulate(const EmulateOptions& options) {
  refuse_job_of_many("emulate");
  const Config config = with_vocabulary(with_steps(
      options.inputs.with_memory(load_config(options.config, options.overrides)), options));
  check_emulate_options(options, config);
  const Profile profile = options.inputs.load_profile(&config);
  const TrainPlan plan = make_plan(config, config.model.vocabulary);
  const Machine machine = options.inputs.load_machine(&config, profile, plan.ranks());
  const Compared compared = compare_plan(options, plan, profile, machine);
  if (options.json) {
    print_comparison_json(compared, plan);
  } else {
    print_comparison(compared, plan, machine);
  }
  if (!options.timeline.empty()) write_tracks(options.timeline, compared, plan);
  return fits(compared) ? kOk : kViolated;
}

constexpr const char* kEmulateFooter =
    "PLAN is a configuration, as 'chimera plan -o' writes it with its profile and machine. "
    "Schedule,\n"
    "messages, all-reduces and threads are those of a training run; stages wait instead of "
    "computing, "
    "and\n"
    "messages claim the size that they would have. So a plan for more workers than there are "
    "cores\n"
    "can be executed. Times are stretched, so that waking threads costs little beside them.\n"
    "\n"
    "Example:\n"
    "  chimera emulate plan.toml --timeline plan.html";

}  // namespace

RunMode add_emulate(CLI::App& app) {
  const auto options = std::make_shared<EmulateOptions>();
  app.add_option("plan", options->config, "The configuration to execute")
      ->required()
      ->type_name("PLAN");
  app.add_option("--set", options->overrides, "Override a key, as pipeline.stages=8")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  options->inputs.add(app);
  app.add_option("--groups", options->groups,
                 "How many of the W groups to run (default: up to 64 "
                 "threads)")
      ->type_name("W");
  app.add_option("--steps", options->steps,
                 "Steps to run (default 5, of asynchronous plans as many as fill them); their "
                 "median is shown")
      ->type_name("N");
  app.add_option("--stretch", options->stretch,
                 "Real seconds for each predicted one (default: as the shortest action asks)")
      ->type_name("X");
  app.add_option("--timeline", options->timeline,
                 "Write prediction and measurement as a page (.html) or trace (.json)")
      ->type_name("FILE");
  app.add_flag("--json", options->json, "Print the comparison as JSON");
  app.footer(kEmulateFooter);
  return [options] { return run_emulate(*options); };
}

}  // namespace chimera
