// chimera simulate: what a schedule will cost, from durations.
#include "chimera/simulate/simulate.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <iomanip>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/base/file.h"
#include "chimera/cli/mode.h"
#include "chimera/cli/schedule_options.h"
#include "chimera/cli/terminal.h"

namespace chimera {
namespace {

constexpr std::array<std::string_view, 4> kResultFormats = {"table", "json", "html", "trace"};

struct SimulateOptions {
  ScheduleOptions schedule;
  DurationOptions durations;
  ReduceOption reduce;
  double latency = 0;
  std::optional<double> bandwidth, message_bytes;
  std::string reduce_time;
  double step_time = 0;
  WidthOption width;
  std::string format;
  bool json = false;  // the same as format json
  std::string output;
};

std::string format_of(const SimulateOptions& options) {
  const std::string& format = options.format;
  if (format.empty()) return options.json ? "json" : "table";
  if (std::find(kResultFormats.begin(), kResultFormats.end(), format) == kResultFormats.end()) {
    throw Error(ErrorCode::kUsage, unknown_word("format", format, kResultFormats));
  }
  if (options.json && format != "json") {
    throw Error(ErrorCode::kUsage,
                cat("--json and --format ", format, " ask for two formats; leave one out"));
  }
  return format;
}

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

std::string as_json(const Schedule& schedule, const Verdict& verdict, const Timeline& timeline) {
  nlohmann::ordered_json workers = nlohmann::ordered_json::array();
  for (int worker = 0; worker < schedule.workers(); ++worker) {
    workers.push_back({{"peak_stash", verdict.peak_stash[static_cast<std::size_t>(worker)]},
                       {"busy", busy(timeline, worker)}});
  }
  const nlohmann::ordered_json all = {{"schedule", schedule.name},
                                      {"stages", schedule.stages()},
                                      {"micros", schedule.micros},
                                      {"makespan", makespan(timeline)},
                                      {"bubble_ratio", bubble_ratio(timeline)},
                                      {"workers", workers}};
  return all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string as_table(const Schedule& schedule, const Verdict& verdict, const Timeline& timeline,
                     const TextStyle& style) {
  const double end = makespan(timeline);
  std::ostringstream out;
  out << summary(schedule) << "\n"
      << "makespan      " << end << "\n"
      << "bubble ratio  " << bubble_ratio(timeline) << "\n\n"
      << "worker       busy       idle  peak stash\n";
  for (int worker = 0; worker < schedule.workers(); ++worker) {
    const double working = busy(timeline, worker);
    out << std::left << std::setw(6) << cat("P", worker) << std::right << std::setw(11) << working
        << std::setw(11) << end - working << std::setw(12)
        << verdict.peak_stash[static_cast<std::size_t>(worker)] << "\n";
  }
  out << "\n" << draw_text(timeline, schedule.placement, style);
  return out.str();
}

std::string result(const SimulateOptions& options, const std::string& format,
                   const Schedule& schedule, const Verdict& verdict, const Timeline& timeline) {
  if (format == "json") return as_json(schedule, verdict, timeline);
  if (format == "table") {
    return as_table(schedule, verdict, timeline, options.width.style(options.output.empty()));
  }
  const std::vector<Track> tracks = {{"predicted", timeline}};
  if (format == "trace") return draw_trace(tracks, schedule.placement);
  return draw_html(tracks, schedule.placement, summary(schedule));
}

int run_simulate(const SimulateOptions& options) {
  const std::string format = format_of(options);
  const Schedule schedule = options.schedule.load();
  const Costs costs = costs_of(options, schedule.stages());
  const Program program = options.reduce.lower(schedule);
  const Verdict verdict = verify(program);
  if (!verdict.ok()) return refuse(program, verdict);
  deliver(result(options, format, schedule, verdict, simulate(program, costs)), options.output);
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
         "\nFormats: 'table', with a drawing below; 'json'; 'html', a page to zoom and to hover\n"
         "over, with waits and all-reduces; 'trace', JSON for chrome://tracing and Perfetto. The\n"
         "last two call the unit of time seconds.\n"
         "\nExamples:\n"
         "  chimera simulate chimera --stages 4 --micros 4\n"
         "  chimera simulate 1f1b --stages 4 --micros 8 --forward 10e-3 --backward 20e-3 --json\n"
         "  chimera simulate chimera --stages 4 --micros 4 --forward 1,2,2,1 --latency 0.1\n"
         "  chimera simulate chimera --stages 4 --micros 8 --latency 0.2 --format html -o a.html";
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
  app.add_option("--format", options->format, "table, json, html or trace (default table)")
      ->type_name("FORMAT");
  app.add_flag("--json", options->json,
               "As --format json: makespan, bubble_ratio, workers: [{peak_stash, busy}]");
  app.add_option("-o,--output", options->output,
                 "Write to FILE instead of standard output, whole or not at all")
      ->type_name("FILE");
  app.footer(simulate_footer());
  return [options] { return run_simulate(*options); };
}

}  // namespace chimera
