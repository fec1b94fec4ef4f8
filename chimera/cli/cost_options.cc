#include "chimera/cli/cost_options.h"

#include <CLI/CLI.hpp>

#include "chimera/base/error.h"

namespace chimera {
namespace {

void add_messages(const CostOptions& options, int stages, Costs& costs) {
  check_time("--latency", options.latency, true);
  costs.link.latency_s = options.latency;
  if (options.bandwidth.has_value() != options.message_bytes.has_value()) {
    throw Error(ErrorCode::kUsage,
                "--bandwidth and --message-bytes say together how long a message takes; give both "
                "or none");
  }
  if (!options.bandwidth) return;
  check_time("--bandwidth", *options.bandwidth, false);
  check_time("--message-bytes", *options.message_bytes, true);
  costs.link.bandwidth = *options.bandwidth;
  costs.boundary_bytes.assign(static_cast<std::size_t>(stages - 1), *options.message_bytes);
}

}  // namespace

void CostOptions::add(CLI::App& app) {
  durations.add(app);
  app.add_option("--latency", latency, "Time of an empty message (default 0)")->type_name("L");
  app.add_option("--bandwidth", bandwidth,
                 "Bytes a unit of time on each channel (default: no limit)")
      ->type_name("BYTES");
  app.add_option("--message-bytes", message_bytes,
                 "Size of an activation or gradient between two stages, for one micro-batch")
      ->type_name("BYTES");
  app.add_option("--reduce-time", reduce_time,
                 "Time of a stage's gradient all-reduce; one number, or one for each stage "
                 "(default 0)")
      ->type_name("T");
  app.add_option("--step-time", step_time, "Time of the optimizer's step (default 0)")
      ->type_name("T");
}

Costs CostOptions::costs(int stages) const {
  Costs costs = durations.costs(stages);
  add_messages(*this, stages, costs);
  if (!reduce_time.empty()) {
    costs.reduce_s = for_each_stage("--reduce-time", reduce_time, stages, true);
  }
  check_time("--step-time", step_time, true);
  costs.step_s = step_time;
  return costs;
}

}  // namespace chimera
