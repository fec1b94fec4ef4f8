// Whether the planner chooses well: on random small machines its first choice is executed
// (emulated) beside the other plans that might be as fast, and plans that it refuses for memory are
// executed to see that they would not have fitted.
//
//     build/plan_choice --machines 20
//
// Prints one JSON object a machine: the first choice's measured step over that of the fastest plan
// measured, how many plans were executed, the worst error of a prediction, and whether anything
// failed or was refused that would have fitted. Memory is by the emulation's byte meter.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "chimera/base/error.h"
#include "chimera/base/random.h"
#include "chimera/plan/explain.h"
#include "chimera/plan/plan.h"
#include "chimera/runtime/emulate.h"

namespace chimera {
namespace {

// Numbers of one machine, drawn one after the other.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : stream_(seed, 21, 12) {}

  double between(double low, double high) { return low + (high - low) * stream_.uniform(next_++); }
  template <class Value>
  Value of(const std::vector<Value>& values) {
    const auto place = static_cast<std::size_t>(between(0, static_cast<double>(values.size())));
    return values[std::min(place, values.size() - 1)];
  }

 private:
  RandomStream stream_;
  std::uint64_t next_ = 0;
};

LayerKind random_kind(const std::string& name, double forward_s, double bytes, Draw& draw) {
  LayerKind kind;
  kind.name = name;
  kind.parameters = static_cast<std::int64_t>(draw.between(1e6, 4e6));
  kind.weight_bytes = kind.gradient_bytes = 4.0 * static_cast<double>(kind.parameters);
  kind.optimizer_bytes = 2 * kind.weight_bytes;
  kind.step_s = 0.3e-9 * static_cast<double>(kind.parameters);
  const double fixed = draw.between(0, 0.5), ratio = draw.between(1.6, 2.2);
  for (const int sequences : {1, 2, 4}) {
    const double seconds = forward_s * (fixed + (1 - fixed) * sequences);
    LayerPoint point;
    point.sequences = sequences;
    point.forward_s = point.recompute_s = seconds;
    point.backward_s = ratio * seconds;
    point.backward_input_s = seconds;
    point.stash_bytes = bytes * sequences;
    point.output_bytes = bytes * sequences / 16;
    point.forward_work_bytes = point.recompute_work_bytes = bytes * sequences / 8;
    point.kept_forward_work_bytes = point.backward_work_bytes = bytes * sequences / 4;
    kind.points.push_back(point);
  }
  return kind;
}

PlanRequest random_request(std::uint64_t seed) {
  Draw draw(seed);
  PlanRequest request;
  request.ranks = draw.of<int>({2, 4, 4, 6, 8, 8});
  const int blocks = request.ranks + static_cast<int>(draw.between(0, 7));
  request.batch = request.ranks * draw.of<int>({2, 4, 8});
  Profile& profile = request.profile;
  profile.device = profile.source = "random";
  const double block_s = draw.between(5e-3, 20e-3), bytes = draw.between(20e6, 100e6);
  profile.kinds = {random_kind("embedding", block_s * draw.between(0, 0.5), bytes / 4, draw),
                   random_kind("block", block_s, bytes, draw),
                   random_kind("head", block_s * draw.between(0, 3), bytes / 2, draw)};
  profile.first = {"embedding"};
  profile.blocks.assign(static_cast<std::size_t>(blocks), "block");
  profile.last = {"head"};
  Machine& machine = request.machine;
  machine.name = "random machine " + std::to_string(seed);
  machine.nodes = request.ranks;
  const auto link = [&] { return Link{draw.between(1e-6, 5e-4), draw.between(0.5e9, 10e9)}; };
  machine.between = machine.within = {link(), link()};
  request.barrier = draw.between(0, 1) < 0.5;
  if (request.barrier) request.no_asynchronous = "steps have a barrier";
  request.most = std::numeric_limits<int>::max();
  // From just enough for something to plenty.
  std::vector<double> peaks;
  for (const Plan& plan : plan(request).best) {
    peaks.push_back(*std::ranges::max_element(plan.prediction.peak_bytes));
  }
  std::ranges::sort(peaks);
  const double rank = draw.between(0.1, 1) * static_cast<double>(peaks.size() - 1);
  machine.memory_bytes = {1.0001 * peaks[static_cast<std::size_t>(rank)] / kPlannedMemory};
  return request;
}

Emulation execute(const Candidate& candidate, const PlanRequest& request) {
  const bool asynchronous = candidate.generator->asynchronous;
  const int micros = candidate.spec.micros;
  const int steps = 4 + 4 * candidate.spec.stages / micros;  // of an asynchronous run
  const Program program = candidate_program(candidate, request.reduce, steps);
  const Layout layout = candidate_layout(candidate, program.source.placement);
  const Costs costs = layout_costs(request.profile, request.machine, layout);
  const MemoryModel memory = layout_memory(request.profile, layout);
  return emulate({.program = program,
                  .costs = costs,
                  .memory = memory,
                  .groups = candidate.width,
                  .steps = 3,
                  .barrier = request.barrier && !asynchronous,
                  .micros_per_step = asynchronous ? micros : 0});
}

struct Outcome {
  double first_s = 0, fastest_s = std::numeric_limits<double>::infinity();
  std::string first, fastest;
  int executed = 0, failed = 0, refused = 0, refused_wrongly = 0;
  double worst_step = 0, worst_peak = 0, sum_step = 0;
};

void run_plan(const Plan& plan, const PlanRequest& request, Outcome& outcome) {
  try {
    const Emulation seen = execute(plan.candidate, request);
    ++outcome.executed;
    const double error = std::abs(plan.prediction.step_s / seen.step_s - 1);
    constexpr double kWorthALine = 0.05;
    if (error > kWorthALine) {
      std::cerr << describe(plan.candidate) << ": predicted " << plan.prediction.step_s
                << " s, measured " << seen.step_s << " s\n";
    }
    outcome.sum_step += error;
    outcome.worst_step = std::max(outcome.worst_step, error);
    for (std::size_t worker = 0; worker < seen.peak_bytes.size(); ++worker) {
      const double peak = seen.peak_bytes[worker];
      outcome.worst_peak =
          std::max(outcome.worst_peak, std::abs(plan.prediction.peak_bytes[worker] / peak - 1));
      if (peak > request.machine.limit_bytes(0)) ++outcome.failed;
    }
    if (outcome.first_s == 0) {
      outcome.first_s = seen.step_s;
      outcome.first = describe(plan.candidate);
    }
    if (seen.step_s < outcome.fastest_s) {
      outcome.fastest_s = seen.step_s;
      outcome.fastest = describe(plan.candidate);
    }
  } catch (const Error& error) {
    ++outcome.failed;
    std::cerr << describe(plan.candidate) << ": " << error.what() << "\n";
  }
}

void run_refused(const Refused& refused, const PlanRequest& request, Outcome& outcome) {
  const Emulation seen = execute(refused.candidate, request);
  ++outcome.refused;
  const double limit = kPlannedMemory * request.machine.limit_bytes(0);
  if (std::ranges::max(seen.peak_bytes) <= limit) ++outcome.refused_wrongly;
}

// Others are predicted to be slower by more than any prediction was ever off.
constexpr double kMaybeAsFast = 1.10;

Outcome try_machine(std::uint64_t seed, int most_plans, int most_refused) {
  const PlanRequest request = random_request(seed);
  const Plans plans = plan(request);
  Outcome outcome;
  const double best_s = plans.best.front().prediction.step_s;
  for (const Plan& plan : plans.best) {
    if (plan.prediction.step_s > kMaybeAsFast * best_s || outcome.executed >= most_plans) break;
    run_plan(plan, request, outcome);
  }
  for (const Refused& refused : plans.refused) {
    if (refused.needed_bytes == 0) continue;
    if (outcome.refused >= most_refused) break;
    run_refused(refused, request, outcome);
  }
  return outcome;
}

void print_outcome(std::uint64_t seed, const Outcome& outcome) {
  const nlohmann::ordered_json line = {{"machine", seed},
                                       {"first", outcome.first},
                                       {"fastest", outcome.fastest},
                                       {"first_over_fastest", outcome.first_s / outcome.fastest_s},
                                       {"executed", outcome.executed},
                                       {"failed", outcome.failed},
                                       {"mean_step_error", outcome.sum_step / outcome.executed},
                                       {"worst_step_error", outcome.worst_step},
                                       {"worst_peak_error", outcome.worst_peak},
                                       {"refused_for_memory_executed", outcome.refused},
                                       {"refused_wrongly", outcome.refused_wrongly}};
  std::cout << line.dump() << std::endl;
}

}  // namespace
}  // namespace chimera

int main(int argc, char** argv) {
  CLI::App app("Whether the planner's first choice is the fastest, by emulation");
  int machines = 20, first = 1, most_plans = 12, most_refused = 3;
  app.add_option("--machines", machines, "Random machines");
  app.add_option("--first", first, "The first machine's number");
  app.add_option("--plans", most_plans, "Plans executed on each, at most");
  app.add_option("--refused", most_refused, "Refused plans executed on each, at most");
  CLI11_PARSE(app, argc, argv);
  try {
    for (int seed = first; seed < first + machines; ++seed) {
      const auto number = static_cast<std::uint64_t>(seed);
      chimera::print_outcome(number, chimera::try_machine(number, most_plans, most_refused));
    }
  } catch (const chimera::Error& error) {
    std::cerr << "plan_choice: error: " << error.what() << "\n";
    return chimera::exit_code(error.code());
  }
}
