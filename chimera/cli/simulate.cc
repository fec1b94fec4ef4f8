// chimera simulate: what a schedule will cost, from durations.
#include "chimera/simulate/simulate.h"

#include <CLI/CLI.hpp>
#include <iomanip>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/cli/mode.h"
#include "chimera/cli/schedule_options.h"
#include "chimera/cli/terminal.h"

namespace chimera {
namespace {

struct SimulateOptions {
  ScheduleOptions schedule;
  DurationOptions durations;
  ReduceOption reduce;
  double latency = 0;
  std::optional<double> bandwidth, message_bytes;
  std::string reduce_time;
  double step_time = 0;
  WidthOption width;
  bool json = false;
};

void add_messages(const SimulateOptions& options, int stages, Costs& costs) {
  check_time("--latency", options.latency, true);
  costs.latency_s = options.latency;
  if (options.bandwidth.has_value() != options.message_bytes.has_value()) {
    throw Error(ErrorCode::kUsage,
                "--bandwidth and --message-bytes say together how long a message takes; give both "
                "or none");
  }
  if (!options.bandwidth) return;
  check_time("--bandwidth", *options.bandwidth, false);
  check_time("--message-bytes", *options.message_bytes, true);
  costs.bandwidth = *options.bandwidth;
  costs.boundary_bytes.assign(static_cast<std::size_t>(stages - 1), *options.message_bytes);
}

Costs costs_of(const SimulateOptions& options, int stages) {
  Costs costs = options.durations.costs(stages);
  add_messages(options, stages, costs);
  if (!options.reduce_time.empty()) {
    costs.reduce_s = for_each_stage("--reduce-time", options.reduce_time, stages, true);
  }
  check_time("--step-time", options.step_time, true);
  costs.step_s = options.step_time;
  return costs;
}

void print_json(const Schedule& schedule, const Verdict& verdict, const Timeline& timeline) {
  nlohmann::ordered_json workers = nlohmann::ordered_json::array();
  for (int worker = 0; worker < schedule.workers(); ++worker) {
    workers.push_back(
        {{"peak_stash", verdict.peak_stash[static_cast<std::size_t>(worker)]}, {"busy", busy(timeline, worker)}});
  }
  const nlohmann::ordered_json all = {{"schedule", schedule.name},
                                      {"stages", schedule.stages()},
                                      {"micros", schedule.micros},
                                      {"makespan", makespan(timeline)},
                                      {"bubble_ratio", bubble_ratio(timeline)},
                                      {"workers", workers}};
  std::cout << all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
}

void print_table(const Schedule& schedule, const Verdict& verdict, const Timeline& timeline) {
  const double end = makespan(timeline);
  std::cout << summary(schedule) << "\n"
            << "makespan      " << end << "\n"
            << "bubble ratio  " << bubble_ratio(timeline) << "\n\n"
            << "worker       busy       idle  peak stash\n";
  for (int worker = 0; worker < schedule.workers(); ++worker) {
    const double working = busy(timeline, worker);
    std::cout << std::left << std::setw(6) << cat("P", worker) << std::right << std::setw(11)
              << working << std::setw(11) << end - working << std::setw(12)
              << verdict.peak_stash[static_cast<std::size_t>(worker)] << "\n";
  }
}

int run_simulate(const SimulateOptions& options) {
  const Schedule schedule = options.schedule.load();
  const Costs costs = costs_of(options, schedule.stages());
  const Program program = options.reduce.lower(schedule);
  const Verdict verdict = verify(program);
  if (!verdict.ok()) return refuse(program, verdict);
  const Timeline timeline = simulate(program, costs);
  if (options.json) {
    print_json(schedule, verdict, timeline);
  } else {
    print_table(schedule, verdict, timeline);
    std::cout << "\n" << draw_text(timeline, schedule.placement, options.width.style(true));
  }
  return kOk;
}

std::string simulate_footer() {
  return schedule_help() +
         "\nEach worker does its row in order; a computation starts when the worker is free and "
         "its\n"
         "input has arrived. A message arrives latency + bytes / bandwidth after it was sent.\n"
         "Prints the time of one step (makespan), the part of it that workers idle (bubble "
         "ratio),\n"
         "and for each worker its busy time and the most micro-batches whose activations it holds\n"
         "(peak stash). Times are in seconds, or in any one unit; sizes in bytes.\n"
         "\nExamples:\n"
         "  chimera simulate chimera --stages 4 --micros 4\n"
         "  chimera simulate 1f1b --stages 4 --micros 8 --forward 10e-3 --backward 20e-3 --json\n"
         "  chimera simulate chimera --stages 4 --micros 4 --forward 1,2,2,1 --latency 0.1";
}

void add_cost_options(CLI::App& app, SimulateOptions& options) {
  app.add_option("--latency", options.latency, "Time of an empty message (default 0)")
      ->type_name("L");
  app.add_option("--bandwidth", options.bandwidth,
                 "Bytes a unit of time on each channel (default: no limit)")
      ->type_name("BYTES");
  app.add_option("--message-bytes", options.message_bytes,
                 "Size of an activation or gradient between two stages, for one micro-batch")
      ->type_name("BYTES");
  app.add_option("--reduce-time", options.reduce_time,
                 "Time of a stage's gradient all-reduce; one number, or one for each stage "
                 "(default 0)")
      ->type_name("T");
  app.add_option("--step-time", options.step_time, "Time of the optimizer's step (default 0)")
      ->type_name("T");
}

}  // namespace

RunMode add_simulate(CLI::App& app) {
  const auto options = std::make_shared<SimulateOptions>();
  options->schedule.add(app);
  options->durations.add(app);
  options->reduce.add(app);
  add_cost_options(app, *options);
  options->width.add(app);
  app.add_flag("--json", options->json,
               "Print JSON: makespan, bubble_ratio, workers: [{peak_stash, busy}]");
  app.footer(simulate_footer());
  return [options] { return run_simulate(*options); };
}

}  // namespace chimera
