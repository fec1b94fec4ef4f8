// chimera compare: what every schedule costs at the same work, in one table.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>

#include "chimera/base/error.h"
#include "chimera/base/file.h"
#include "chimera/base/number.h"
#include "chimera/base/text.h"
#include "chimera/cli/comparison.h"
#include "chimera/cli/comparison_table.h"
#include "chimera/cli/cost_options.h"
#include "chimera/cli/mode.h"
#include "chimera/cli/terminal.h"

namespace chimera {
namespace {

constexpr std::array<std::string_view, 4> kTableFormats = {"table", "json", "csv", "md"};

struct CompareOptions {
  int stages = 0, micros = 0;
  std::string pairs;  // numbers with commas; empty: every legal one
  std::string recompute = "none";
  CostOptions costs;
  ReduceOption reduce;
  std::string format = "table";
  std::string output;
};

void check_count(std::string_view option, int value, std::int64_t most) {
  if (value >= 1 && value <= most) return;
  throw Error(ErrorCode::kUsage,
              cat(option, " is ", value, "; expected a number from 1 to ", most));
}

std::vector<int> pairs_of(const CompareOptions& options) {
  std::vector<int> pairs;
  if (options.pairs.empty()) return pairs;
  for (const std::string_view part : split(options.pairs, ',')) {
    const std::string_view word = trim(part);
    const auto value = parse_number<int>(word);
    if (!value || *value < 1) {
      throw Error(ErrorCode::kUsage, cat("--pairs is '", options.pairs, "', in which '", word,
                                         "' is no number from 1 up; expected one or more, as 1,2"));
    }
    pairs.push_back(*value);
  }
  return pairs;
}

Work work_of(const CompareOptions& options) {
  check_count("--stages", options.stages, kMaxStages);
  check_count("--micros", options.micros, kMaxCells / options.stages);
  return {.stages = options.stages,
          .micros = options.micros,
          .costs = options.costs.costs(options.stages),
          .recompute = options.recompute,
          .reduce = reduce_policy(options.reduce.policy)};
}

std::string printed(const CompareOptions& options, const Work& work,
                    const std::vector<Contender>& contenders) {
  if (options.format == "json") return json_of(work, contenders);
  if (options.format == "csv") return csv_of(contenders);
  if (options.format == "md") return markdown_of(contenders);
  return table_of(work, contenders, WidthOption{}.style(options.output.empty()).columns);
}

int run_compare(const CompareOptions& options) {
  if (std::find(kTableFormats.begin(), kTableFormats.end(), options.format) ==
      kTableFormats.end()) {
    throw Error(ErrorCode::kUsage, unknown_word("format", options.format, kTableFormats));
  }
  const Work work = work_of(options);
  deliver(printed(options, work, compare(work, pairs_of(options))), options.output);
  return kOk;
}

constexpr const char* kCompareFooter =
    "Generates every schedule, proves it and simulates it with the same costs. The table has them\n"
    "in the order of 'chimera show --help', chimera once for each method and number of pairs f\n"
    "('fused': both forwards of a pair as one action). What cannot be with D stages and N\n"
    "micro-batches has the reason in its row.\n"
    "\n"
    "All rows do the work of N micro-batches. In halving a micro-batch is what a backward takes,\n"
    "so it has 2N halves, each at half the time and half the message; its stash is in whole\n"
    "micro-batches. Asynchronous schedules do not drain between steps; their time and bubble\n"
    "ratio are those of the steady state, warm-up and drain left out. They train by other rules\n"
    "than one device would, so the marks * compare the synchronous ones alone.\n"
    "--reduce-time and --step-time are of each all-reduce and each step of a stage, which\n"
    "pipedream does after every micro-batch, and are the same for any number of replicas.\n"
    "\n"
    "Formats: 'table'; 'md', for Markdown; 'csv' and 'json' (docs/formats.md).\n"
    "\n"
    "Examples:\n"
    "  chimera compare --stages 4 --micros 4\n"
    "  chimera compare --stages 8 --micros 32 --pairs 1 --recompute all\n"
    "  chimera compare --stages 8 --micros 16 --forward 1 --backward 1.6 --latency 0.25\n"
    "  chimera compare --stages 4 --micros 16 --format csv -o schedules.csv";

}  // namespace

RunMode add_compare(CLI::App& app) {
  const auto options = std::make_shared<CompareOptions>();
  app.add_option("--stages", options->stages, "D: stages, and workers")->required()->type_name("D");
  app.add_option("--micros", options->micros, "N: micro-batches of one group in one step")
      ->required()
      ->type_name("N");
  app.add_option("--pairs", options->pairs,
                 "f: pairs of opposite pipes, one or more numbers as 1,2 (default: all that D "
                 "allows)")
      ->type_name("F");
  add_recompute_option(app, options->recompute);
  options->costs.add(app);
  options->reduce.add(app);
  app.add_option("--format", options->format, "table, json, csv or md (default table)")
      ->type_name("FORMAT");
  app.add_option("-o,--output", options->output,
                 "Write to FILE instead of standard output, whole or not at all")
      ->type_name("FILE");
  app.footer(kCompareFooter);
  return [options] { return run_compare(*options); };
}

}  // namespace chimera
