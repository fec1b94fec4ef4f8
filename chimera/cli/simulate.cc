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
#include "chimera/base/file.h"
#include "chimera/base/text.h"
#include "chimera/cli/cost_options.h"
#include "chimera/cli/mode.h"
#include "chimera/cli/schedule_options.h"
#include "chimera/cli/terminal.h"

namespace chimera {
namespace {

constexpr std::array<std::string_view, 4> kResultFormats = {"table", "json", "html", "trace"};

struct SimulateOptions {
  ScheduleOptions schedule;
  CostOptions costs;
  ReduceOption reduce;
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

std::string as_json(const Schedule& schedule, const Verdict& verdict, const Timeline& timeline) {
  nlohmann::ordered_json workers = nlohmann::ordered_json::array();
  for (int worker = 0; worker < schedule.workers(); ++worker) {
    const auto index = static_cast<std::size_t>(worker);
    workers.push_back({{"peak_stash", verdict.peak_stash[index]},
                       {"peak_versions", verdict.peak_versions[index]},
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
      << "worker       busy       idle  peak stash  weights\n";
  for (int worker = 0; worker < schedule.workers(); ++worker) {
    const auto index = static_cast<std::size_t>(worker);
    const double working = busy(timeline, worker);
    out << std::left << std::setw(6) << cat("P", worker) << std::right << std::setw(11) << working
        << std::setw(11) << end - working << std::setw(12) << verdict.peak_stash[index]
        << std::setw(9) << verdict.peak_versions[index] << "\n";
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
  const Costs costs = options.costs.costs(schedule.stages());
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
         "and for each worker its busy time, the most micro-batches whose activations it holds\n"
         "(peak stash) and the most stages' weights, each version counted (weights). Times are in "
         "seconds, or in any one unit; sizes in bytes.\n"
         "\nFormats: 'table', with a drawing below; 'json'; 'html', a page to zoom and to hover\n"
         "over, with waits and all-reduces; 'trace', JSON for chrome://tracing and Perfetto. The\n"
         "last two call the unit of time seconds.\n"
         "\nExamples:\n"
         "  chimera simulate chimera --stages 4 --micros 4\n"
         "  chimera simulate 1f1b --stages 4 --micros 8 --forward 10e-3 --backward 20e-3 --json\n"
         "  chimera simulate chimera --stages 4 --micros 4 --forward 1,2,2,1 --latency 0.1\n"
         "  chimera simulate chimera --stages 4 --micros 8 --latency 0.2 --format html -o a.html";
}

}  // namespace

RunMode add_simulate(CLI::App& app) {
  const auto options = std::make_shared<SimulateOptions>();
  options->schedule.add(app);
  options->costs.add(app);
  options->reduce.add(app);
  options->width.add(app);
  app.add_option("--format", options->format, "table, json, html or trace (default table)")
      ->type_name("FORMAT");
  app.add_flag("--json", options->json,
               "As --format json: makespan, bubble_ratio, workers: "
               "[{peak_stash, peak_versions, busy}]");
  app.add_option("-o,--output", options->output,
                 "Write to FILE instead of standard output, whole or not at all")
      ->type_name("FILE");
  app.footer(simulate_footer());
  return [options] { return run_simulate(*options); };
}

}  // namespace chimera
