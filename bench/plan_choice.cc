// Whether the planner chooses well: on random small machines (random_request.h) its first choice is
// executed (emulated) beside the other plans within memory, on the first few machines all of them,
// and plans that it refuses for memory are executed to see that they do not fit.
//
//     build/plan_choice --machines 20
//
// Prints CSV, a line a machine, and what all have in common, in lines that begin with '#':
//
//   plans, executed, left_out  within memory; run; would have been run but for --seconds
//   failed, above_memory       ended with an error; held more than a device has
//   first_over_fastest         measured step of the first choice over that of the fastest
//   *_error                    |predicted / measured - 1|, of steps and of workers' peaks
//   fullest                    the largest part of a device's memory that a plan used
//   refused, refused_executed  for memory
//   refused_in_reserve         held more of some device than the planner uses (kPlannedMemory), but
//                              no more than it has: what that reserve costs
//   refused_wrongly            held no more than the planner uses
//   disturbed                  plans behind their own time by more than 1 % of a step in all tries
//
// What is refused might fit with another split or recompute, so of all there are the one that
// leaves most room is executed. Bytes are by the emulation's byte meter.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <limits>
#include <string>

#include "bench/random_request.h"
#include "bench/undisturbed.h"
#include "chimera/base/clock.h"
#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/plan/fitting.h"
#include "chimera/plan/plan.h"

namespace chimera {
namespace {

struct Options {
  int machines = 20, first = 1;
  std::uint64_t seed = 1;
  int all = 3;                   // machines on which all plans are executed
  int plans = 10, refused = 4;   // on each of the others; on each
  double seconds = 16, run = 2;  // real, of a machine and of one try of one plan
  int tries = 3;
};

// Worth a line of its own; and for how much better a plan counts as better.
constexpr double kFarOff = 0.05, kAsGood = 1.02;

// ---- running one candidate

struct Measured {
  double step_s = 0;
  std::vector<double> peak_bytes;
  double fullest = 0;  // of all workers, the largest part of a device's memory
  bool disturbed = false;
};

// Real seconds a predicted one, so that a run takes no more than it may.
double stretch_of(const EmulationSetting& setting, double run_s) {
  const int steps = setting.micros_per_step > 0
                        ? setting.program.source.micros / setting.micros_per_step
                        : setting.steps;
  return std::min(default_stretch(setting), run_s / (steps * predicted_step_s(setting)));
}

double fullest_part(const std::vector<double>& peaks, const std::vector<double>& limits) {
  double part = 0;
  for (std::size_t worker = 0; worker < peaks.size(); ++worker) {
    part = std::max(part, peaks[worker] / limits[worker]);
  }
  return part;
}

Measured execute(const Candidate& candidate, const PlanRequest& request, const Options& options) {
  const bool asynchronous = candidate.generator->asynchronous;
  const int micros = candidate.spec.micros;
  const int steps = 4 + 4 * candidate.spec.stages / micros;  // of an asynchronous run
  const Program program = candidate_program(candidate, request.reduce, steps);
  const Layout layout = candidate_layout(candidate, program.source.placement);
  const Costs costs = layout_costs(request.profile, request.machine, layout);
  const MemoryModel memory = layout_memory(request.profile, layout);
  EmulationSetting setting{.program = program,
                           .costs = costs,
                           .memory = memory,
                           .groups = candidate.width,
                           .steps = 3,
                           .barrier = request.barrier && !asynchronous,
                           .micros_per_step = asynchronous ? micros : 0};
  setting.stretch = stretch_of(setting, options.run);
  const Emulation seen = emulate_undisturbed(setting, options.tries).emulation;
  return {.step_s = seen.step_s,
          .peak_bytes = seen.peak_bytes,
          .fullest = fullest_part(seen.peak_bytes, layout_limits(request.machine, layout)),
          .disturbed = is_disturbed(seen)};
}

// ---- what is seen on a machine

struct Outcome {
  int plans = 0, executed = 0, left_out = 0, failed = 0, above_memory = 0;
  std::string first, fastest;
  double first_s = 0, fastest_s = std::numeric_limits<double>::infinity();
  double sum_step_error = 0, worst_step_error = 0, worst_peak_error = 0;
  double fullest = 0;
  int refused = 0, refused_executed = 0, refused_in_reserve = 0, refused_wrongly = 0;
  int disturbed = 0;

  [[nodiscard]] double first_over_fastest() const {
    // Where the first choice failed to run, nothing is as good.
    return first_s > 0 ? first_s / fastest_s : std::numeric_limits<double>::infinity();
  }
};

void say(const Candidate& candidate, const PlanRequest& request, const std::string& what) {
  std::cerr << request.machine.name << ": " << describe(candidate) << " " << what << "\n";
}

void add_errors(const Plan& plan, const PlanRequest& request, const Measured& seen,
                Outcome& outcome) {
  const double error = std::abs(plan.prediction.step_s / seen.step_s - 1);
  outcome.sum_step_error += error;
  outcome.worst_step_error = std::max(outcome.worst_step_error, error);
  for (std::size_t worker = 0; worker < seen.peak_bytes.size(); ++worker) {
    const double off = std::abs(plan.prediction.peak_bytes[worker] / seen.peak_bytes[worker] - 1);
    outcome.worst_peak_error = std::max(outcome.worst_peak_error, off);
  }
  if (error <= kFarOff) return;
  say(plan.candidate, request,
      cat("was predicted to take ", plan.prediction.step_s, " s and took ", seen.step_s,
          seen.disturbed ? ", disturbed" : ""));
}

void add_plan(const Plan& plan, bool is_first, const PlanRequest& request, const Measured& seen,
              Outcome& outcome) {
  ++outcome.executed;
  if (seen.disturbed) ++outcome.disturbed;
  outcome.fullest = std::max(outcome.fullest, seen.fullest);
  if (seen.fullest > 1) {
    ++outcome.above_memory;
    say(plan.candidate, request, cat("used ", percent_text(seen.fullest), " of a device's memory"));
  }
  add_errors(plan, request, seen, outcome);
  if (is_first) outcome.first_s = seen.step_s;
  if (seen.step_s >= outcome.fastest_s) return;
  outcome.fastest_s = seen.step_s;
  outcome.fastest = describe(plan.candidate);
}

// Calls `add` with what was measured of it, unless it fails.
void try_candidate(const Candidate& candidate, const PlanRequest& request, const Options& options,
                   Outcome& outcome, const std::function<void(const Measured&)>& add) {
  try {
    add(execute(candidate, request, options));
  } catch (const std::exception& error) {
    ++outcome.failed;
    say(candidate, request, cat("failed: ", error.what()));
  }
}

void try_plans(const std::vector<Plan>& best, const PlanRequest& request, const Options& options,
               double until_s, Outcome& outcome) {
  outcome.plans = static_cast<int>(best.size());
  outcome.first = describe(best.front().candidate);
  int wanted = std::min(outcome.plans, options.plans);
  for (const Plan& plan : best) {
    if (wanted == 0 || now_s() > until_s) break;
    --wanted;
    try_candidate(plan.candidate, request, options, outcome, [&](const Measured& seen) {
      add_plan(plan, &plan == &best.front(), request, seen, outcome);
    });
  }
  outcome.left_out = wanted;
}

// ---- what was refused for memory

// Calls `visit` with each way to cut so many blocks into the split's stages from `stage` on.
void for_each_split(int blocks, std::size_t stage, std::vector<int>& split,
                    const std::function<void(const std::vector<int>&)>& visit) {
  const int after = static_cast<int>(split.size() - stage) - 1;  // stages, a block each at least
  if (after == 0) {
    split[stage] = blocks;
    return visit(split);
  }
  for (int here = 1; here <= blocks - after; ++here) {
    split[stage] = here;
    for_each_split(blocks - here, stage + 1, split, visit);
  }
}

struct Roomiest {
  Candidate candidate;
  double fullest = std::numeric_limits<double>::infinity();  // as Measured::fullest, by the order
};

// Of all its splits and numbers of blocks to recompute.
Roomiest roomiest(Candidate candidate, const PlanRequest& request) {
  candidate.recomputed.clear();
  const int steps = 2 + 2 * candidate.spec.stages / candidate.spec.micros;
  const Program program = candidate_program(candidate, request.reduce, steps);
  const Placement& placement = program.source.placement;
  const Fitting fitting(request, candidate, placement, program.rows);
  const std::vector<double> limits =
      layout_limits(request.machine, candidate_layout(candidate, placement));
  Roomiest best{.candidate = candidate};
  std::vector<int> split(static_cast<std::size_t>(candidate.spec.stages));
  for_each_split(static_cast<int>(request.profile.blocks.size()), 0, split, [&](const auto& one) {
    for (int blocks = 0; blocks <= std::ranges::max(one); ++blocks) {
      const std::vector<int> recomputed = first_blocks(one, blocks);
      const double fullest = fullest_part(fitting.peaks(one, recomputed), limits);
      if (fullest >= best.fullest) continue;
      best.candidate.split = one;
      best.candidate.recomputed = recomputed;
      best.fullest = fullest;
    }
  });
  return best;
}

// Those that came nearest to fit first.
std::vector<Roomiest> refused_for_memory(const std::vector<Refused>& refused,
                                         const PlanRequest& request) {
  std::vector<Roomiest> all;
  for (const Refused& one : refused) {
    if (one.needed_bytes > 0) all.push_back(roomiest(one.candidate, request));
  }
  std::ranges::stable_sort(all, {}, &Roomiest::fullest);
  return all;
}

void add_refused(const Candidate& candidate, const PlanRequest& request, const Measured& seen,
                 Outcome& outcome) {
  ++outcome.refused_executed;
  if (seen.fullest > 1) return;
  ++(seen.fullest > kPlannedMemory ? outcome.refused_in_reserve : outcome.refused_wrongly);
  say(candidate, request,
      cat("was refused; with a split of ", join(candidate.split, ","), " and ",
          join(candidate.recomputed, ","), " blocks recomputed it used ",
          percent_text(seen.fullest), " of a device's memory"));
}

void try_refused(const std::vector<Refused>& refused, const PlanRequest& request,
                 const Options& options, double until_s, Outcome& outcome) {
  const std::vector<Roomiest> all = refused_for_memory(refused, request);
  outcome.refused = static_cast<int>(all.size());
  int wanted = std::min(outcome.refused, options.refused);
  for (const Roomiest& one : all) {
    if (wanted-- == 0 || now_s() > until_s) break;
    try_candidate(one.candidate, request, options, outcome, [&](const Measured& seen) {
      add_refused(one.candidate, request, seen, outcome);
    });
  }
}

// ---- all machines

// All plans take longer: five times as long, each run shorter.
Options for_all_plans(Options options, std::size_t plans) {
  constexpr double kLonger = 5, kShortest = 0.5;
  options.seconds *= kLonger;
  const double each = options.seconds / static_cast<double>(plans) / 2;
  options.run = std::clamp(each, kShortest, std::max(kShortest, options.run));
  options.plans = std::numeric_limits<int>::max();
  return options;
}

Outcome try_machine(const PlanRequest& request, const Options& options, bool all_plans) {
  const Plans plans = plan(request);
  const Options own = all_plans ? for_all_plans(options, plans.best.size()) : options;
  Outcome outcome;
  try_plans(plans.best, request, own, now_s() + own.seconds, outcome);
  try_refused(plans.refused, request, own, now_s() + own.seconds / 2, outcome);
  return outcome;
}

constexpr const char* kColumns =
    "machine,ranks,blocks,batch,nodes,memory_differs,barrier,plans,executed,left_out,failed,"
    "above_memory,first,fastest,first_over_fastest,mean_step_error,worst_step_error,"
    "worst_peak_error,fullest,refused,refused_executed,refused_in_reserve,refused_wrongly,"
    "disturbed";

std::string quoted(const std::string& text) { return cat('"', text, '"'); }

void print_line(int number, const PlanRequest& request, const Outcome& outcome) {
  const auto part = [](double value) { return fixed_text(value, 4); };
  const std::vector<std::string> cells = {
      cat(number),
      cat(request.ranks),
      cat(request.profile.blocks.size()),
      cat(request.batch),
      cat(request.machine.nodes),
      cat(has_differing_memory(request.machine)),
      cat(request.barrier),
      cat(outcome.plans),
      cat(outcome.executed),
      cat(outcome.left_out),
      cat(outcome.failed),
      cat(outcome.above_memory),
      quoted(outcome.first),
      quoted(outcome.fastest),
      part(outcome.first_over_fastest()),
      part(outcome.sum_step_error / std::max(1, outcome.executed)),
      part(outcome.worst_step_error),
      part(outcome.worst_peak_error),
      part(outcome.fullest),
      cat(outcome.refused),
      cat(outcome.refused_executed),
      cat(outcome.refused_in_reserve),
      cat(outcome.refused_wrongly),
      cat(outcome.disturbed)};
  std::cout << join(cells, ",") << std::endl;
}

void add(const Outcome& outcome, Outcome& sum) {
  for (int Outcome::*count :
       {&Outcome::plans, &Outcome::executed, &Outcome::left_out, &Outcome::failed,
        &Outcome::above_memory, &Outcome::refused, &Outcome::refused_executed,
        &Outcome::refused_in_reserve, &Outcome::refused_wrongly, &Outcome::disturbed}) {
    sum.*count += outcome.*count;
  }
  for (double Outcome::*most :
       {&Outcome::worst_step_error, &Outcome::worst_peak_error, &Outcome::fullest}) {
    sum.*most = std::max(sum.*most, outcome.*most);
  }
  sum.sum_step_error += outcome.sum_step_error;
}

void print_summary(const Outcome& sum, const std::vector<double>& ratios) {
  const auto good = std::ranges::count_if(ratios, [](double ratio) { return ratio <= kAsGood; });
  std::cout << "# first choice: " << good << " of " << ratios.size()
            << " best or within 2 %; worst " << percent_text(std::ranges::max(ratios) - 1)
            << " slower than the fastest\n"
            << "# plans: " << sum.plans << " within memory, " << sum.executed << " executed, "
            << sum.left_out << " left out for want of time, " << sum.failed << " failed to run, "
            << sum.above_memory
            << " above a device's memory (fullest: " << percent_text(sum.fullest) << ")\n"
            << "# refused for memory: " << sum.refused << ", " << sum.refused_executed
            << " executed; would have fitted: " << sum.refused_wrongly << ", and "
            << sum.refused_in_reserve << " between " << percent_text(kPlannedMemory)
            << " and all of it\n"
            << "# step error: mean " << percent_text(sum.sum_step_error / std::max(1, sum.executed))
            << ", worst " << percent_text(sum.worst_step_error) << "; peak error: worst "
            << percent_text(sum.worst_peak_error) << "; disturbed: " << sum.disturbed << "\n";
}

void try_machines(const Options& options) {
  std::cout << kColumns << std::endl;
  Outcome sum;
  std::vector<double> ratios;
  for (int i = 0; i < options.machines; ++i) {
    const PlanRequest request = random_request(options.seed, options.first + i);
    const Outcome outcome = try_machine(request, options, i < options.all);
    print_line(options.first + i, request, outcome);
    add(outcome, sum);
    ratios.push_back(outcome.first_over_fastest());
  }
  print_summary(sum, ratios);
}

}  // namespace
}  // namespace chimera

int main(int argc, char** argv) {
  CLI::App app("Whether the planner's first choice is the fastest, by emulation");
  chimera::Options options;
  app.add_option("--machines", options.machines, "Random machines")->check(CLI::PositiveNumber);
  app.add_option("--first", options.first, "The first machine's number");
  app.add_option("--seed", options.seed, "Of all machines");
  app.add_option("--all", options.all, "So many machines of which all plans are executed");
  app.add_option("--plans", options.plans, "Plans executed on each of the others, at most")
      ->check(CLI::PositiveNumber);
  app.add_option("--refused", options.refused, "Refused plans executed on each, at most")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--seconds", options.seconds,
                 "After which no more plans of a machine are begun, and after half as many no more "
                 "that are refused; five times as many where all are executed")
      ->check(CLI::PositiveNumber);
  app.add_option("--run", options.run, "Seconds of one emulation, about")
      ->check(CLI::PositiveNumber);
  app.add_option("--tries", options.tries, "Of a plan whose emulation is disturbed, at most");
  CLI11_PARSE(app, argc, argv);
  try {
    chimera::try_machines(options);
  } catch (const chimera::Error& error) {
    std::cerr << "plan_choice: error: " << error.what() << "\n";
    return chimera::exit_code(error.code());
  }
}
