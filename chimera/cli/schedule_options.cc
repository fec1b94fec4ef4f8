#include "chimera/cli/schedule_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>

#include "chimera/base/error.h"
#include "chimera/base/number.h"
#include "chimera/base/text.h"
#include "chimera/cli/mode.h"
#include "chimera/schedule/recompute.h"
#include "chimera/schedule/schedule_file.h"

namespace chimera {
namespace {

bool is_generator(std::string_view name) {
  const auto all = generators();
  return std::any_of(all.begin(), all.end(), [&](const Generator& g) { return g.name == name; });
}

// A word with a '/' or '.', or the name of something that is there. A generator's name is never a
// file: write ./chimera for a file of that name.
bool is_file(const std::string& source) {
  if (is_generator(source)) return false;
  std::error_code ignored;
  return source == "-" || source.find_first_of("/.") != std::string::npos ||
         std::filesystem::exists(source, ignored);
}

Schedule load_file(const ScheduleOptions& options) {
  if (options.has_numbers()) {
    throw Error(ErrorCode::kUsage, cat("'", options.source,
                                       "' is a schedule file, which says its own numbers; leave "
                                       "--stages, --micros, --pairs, --method, --fused and --steps "
                                       "out"));
  }
  return read_schedule(options.source);
}

Schedule generated(const ScheduleOptions& options) {
  if (is_generator(options.source) && (!options.stages || !options.micros)) {
    throw Error(
        ErrorCode::kUsage,
        cat("schedule ", options.source, " needs ", options.stages ? "" : "--stages",
            options.stages || options.micros ? "" : " and ", options.micros ? "" : "--micros",
            "; for example: ", options.source, " --stages 4 --micros 8"));
  }
  Spec spec{.stages = options.stages.value_or(0),
            .micros = options.micros.value_or(0),
            .pairs = options.pairs,
            .fused = options.fused,
            .steps = options.steps};
  if (!options.method.empty()) spec.method = chimera::method(options.method);
  return generate(options.source, spec);
}

double number(std::string_view option, std::string_view words, std::string_view word) {
  if (const auto value = parse_number<double>(word)) return *value;
  throw Error(ErrorCode::kUsage,
              cat(option, " is '", words, "', in which '", word,
                  "' is no number; expected one number, or one for each stage as in 1,2,2,1"));
}

std::vector<double> twice(std::vector<double> values) {
  for (double& value : values) value *= 2;
  return values;
}

}  // namespace

void ScheduleOptions::add(CLI::App& app) {
  app.add_option("schedule", source, "Name of a schedule, or a schedule file")
      ->required()
      ->type_name("NAME|FILE");
  app.add_option("--stages", stages, "D: stages, and workers, of a named schedule")->type_name("D");
  app.add_option("--micros", micros, "N: micro-batches of one group in one step")->type_name("N");
  app.add_option("--pairs", pairs, "f: pairs of opposite pipes (chimera; default 1)")
      ->type_name("F");
  app.add_option("--method", method,
                 cat("How chimera goes beyond N = D: ", join(kMethods), " (default direct)"))
      ->type_name("METHOD");
  app.add_flag("--fused", fused, "Doubling: both forwards of a pair as one action");
  app.add_option("--steps", steps, "Steps of an asynchronous schedule, N micro-batches each (1)")
      ->type_name("K");
  add_recompute_option(app, recompute);
}

bool ScheduleOptions::has_numbers() const {
  return stages || micros || pairs || steps || fused || !method.empty();
}

Schedule ScheduleOptions::load() const {
  return chimera::with_recompute(is_file(source) ? load_file(*this) : generated(*this), recompute);
}

void add_recompute_option(CLI::App& app, std::string& which) {
  app.add_option("--recompute", which,
                 "Stages whose activations are recomputed: none, all, or a 0 or 1 for each stage, "
                 "as 1,1,0,0 (default none)")
      ->type_name("WHICH");
}

Schedule with_recompute(Schedule schedule, std::string_view which) {
  if (which == "none") return schedule;
  std::vector<bool> stages(static_cast<std::size_t>(schedule.stages()), which == "all");
  if (which != "all") {
    const auto words = split(which, ',');
    if (words.size() != stages.size() ||
        !std::all_of(words.begin(), words.end(), [](auto w) { return w == "0" || w == "1"; })) {
      throw Error(ErrorCode::kUsage, cat("--recompute is '", which,
                                         "'; expected none, all, or a 0 or 1 for each of the ",
                                         schedule.stages(), " stages, as 1,1,0,0"));
    }
    for (std::size_t stage = 0; stage < words.size(); ++stage) stages[stage] = words[stage] == "1";
  }
  return with_recompute(std::move(schedule), stages);
}

void DurationOptions::add(CLI::App& app) {
  app.add_option("--forward", forward,
                 "Time of one forward; one number, or one for each stage: 1,1,2,1 (default 1)")
      ->type_name("X");
  app.add_option("--backward", backward, "Time of one backward, likewise (default 2 x forward)")
      ->type_name("Y");
}

Costs DurationOptions::costs(int stages) const {
  Costs costs;
  costs.forward_s = for_each_stage("--forward", forward, stages, false);
  costs.backward_s = backward.empty() ? twice(costs.forward_s)
                                      : for_each_stage("--backward", backward, stages, false);
  return costs;
}

void ReduceOption::add(CLI::App& app) {
  app.add_option("--reduce", policy,
                 cat("When a stage's gradients are reduced: ", join(kReducePolicies),
                     " (default eager-opt)"))
      ->type_name("POLICY");
}

Program ReduceOption::lower(const Schedule& schedule) const {
  return chimera::lower(schedule, reduce_policy(policy));
}

void check_time(std::string_view option, double value, bool zero) {
  if (std::isfinite(value) && (value > 0 || (zero && value == 0))) return;
  throw Error(ErrorCode::kUsage,
              cat(option, " is ", value, "; expected a finite number ",
                  zero ? "from 0 up" : "greater than 0", ", such as 1.5 or 1e-3"));
}

std::vector<double> for_each_stage(std::string_view option, std::string_view words, int stages,
                                   bool zero) {
  std::vector<double> values;
  for (const std::string_view word : split(words, ',')) {
    values.push_back(number(option, words, trim(word)));
    check_time(option, values.back(), zero);
  }
  const auto count = static_cast<std::size_t>(stages);
  if (values.size() == 1) values.resize(count, values.front());
  if (values.size() == count) return values;
  throw Error(ErrorCode::kUsage, cat(option, " has ", values.size(), " numbers; expected one, or ",
                                     stages, ", one for each stage"));
}

std::string summary(const Schedule& schedule) {
  const auto counted = [](int count, std::string_view thing) {
    return cat(count, " ", thing, count == 1 ? "" : thing.back() == 'h' ? "es" : "s");
  };
  return cat(schedule.name, ": ", counted(schedule.stages(), "stage"), " on ",
             counted(schedule.workers(), "worker"), ", ", counted(schedule.pipes(), "pipe"), ", ",
             counted(schedule.micros, "micro-batch"));
}

int refuse(const Program& program, const Verdict& verdict) {
  const Violation& first = verdict.violations.front();
  const std::size_t found = verdict.violations.size();
  std::cerr << "chimera: error: schedule " << program.source.name << " cannot be timed, it has "
            << found << (found == 1 ? " violation: " : " violations; the first is ")
            << rule_name(first.rule) << " on worker " << first.worker << ": " << first.what
            << "; 'chimera verify' shows where" << std::endl;
  return kViolated;
}

std::string schedule_help() {
  constexpr std::size_t kNameWidth = 15;
  std::string text = "Schedules by NAME (with --stages and --micros):\n";
  for (const Generator& generator : generators()) {
    const std::size_t gap = kNameWidth - std::min(kNameWidth - 1, generator.name.size());
    text += cat("  ", generator.name, std::string(gap, ' '), generator.summary, "\n");
  }
  return text +
         "A word with a '/' or '.' in it is a FILE in the exchange form (docs/formats.md), as\n"
         "'chimera show NAME --format text' prints it, or, where it ends in .csv, in the CSV of\n"
         "torch.distributed.pipelining. '-' is standard input, in the exchange form.\n";
}

}  // namespace chimera
