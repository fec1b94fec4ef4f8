// How close prediction and execution are: the step time and each worker's peak bytes that simulate
// and worker_peaks predict, beside those of the emulated cluster (runtime/emulate.h), for every
// schedule, with uneven stages, links and all-reduces. Steps of synchronous schedules follow each
// other as messages let them, or with a barrier between them, as where gradients are clipped.
//
//     build/emulate_accuracy --stages 4,8,16,32
//
// Prints one JSON object a case and summaries at the end: of all, of each number of stages, with
// and without a barrier. Times are in predicted seconds; errors are |measured / predicted - 1|, of
// peaks those of every worker.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/undisturbed.h"
#include "chimera/base/error.h"
#include "chimera/base/random.h"
#include "chimera/base/text.h"
#include "chimera/generate/generate.h"
#include "chimera/runtime/emulate.h"
#include "chimera/schedule/lower.h"
#include "chimera/schedule/recompute.h"
#include "chimera/simulate/simulate.h"

namespace chimera {
namespace {

struct Options {
  std::vector<int> stages = {4, 8, 16, 32};
  std::vector<std::string> schedules = {};  // all unless given
  std::uint64_t seed = 1;
  int groups = 1, steps = 3, tries = 3;
  double stretch = 0;
};

struct Case {
  std::string schedule;
  Spec spec;
  bool recompute = false;
  int micros_per_step = 0;  // of an asynchronous schedule
  bool barrier = false;

  [[nodiscard]] Program program() const {
    const std::vector<bool> again(static_cast<std::size_t>(spec.stages), recompute);
    return lower(with_recompute(generate(schedule, spec), again));
  }
};

// All pairs of one method; the others have none.
void add_methods(const Case& one, std::vector<Case>& cases) {
  for (const int pairs : {1, 2}) {
    if (one.spec.stages / 2 % pairs != 0) continue;
    for (const Method method : {Method::kDirect, Method::kDoubling, Method::kHalving}) {
      for (const bool fused : {false, true}) {
        if (fused && method != Method::kDoubling) continue;
        cases.push_back(one);
        cases.back().spec.pairs = pairs;
        cases.back().spec.method = method;
        cases.back().spec.fused = fused;
        if (method != Method::kDirect) cases.back().spec.micros *= 2;
      }
    }
  }
}

void add_cases(const Generator& generator, Case one, std::vector<Case>& cases) {
  if (generator.asynchronous) {
    if (one.barrier) return;  // its steps are on the way
    one.micros_per_step = one.spec.stages;
    one.spec.steps = 4;
  }
  if (generator.methods) return add_methods(one, cases);
  cases.push_back(one);
}

std::vector<Case> cases_of(const Options& options) {
  std::vector<Case> cases;
  for (const int stages : options.stages) {
    for (const Generator& generator : generators()) {
      const std::string name(generator.name);
      if (!options.schedules.empty() && std::ranges::count(options.schedules, name) == 0) continue;
      for (const bool recompute : {false, true}) {
        for (const bool barrier : {false, true}) {
          add_cases(generator,
                    {.schedule = name,
                     .spec = {.stages = stages, .micros = stages},
                     .recompute = recompute,
                     .barrier = barrier},
                    cases);
        }
      }
    }
  }
  return cases;
}

// From one to three, by the seed.
class Uneven {
 public:
  Uneven(std::uint64_t seed, int stages) : draws_(seed, static_cast<std::uint32_t>(stages)) {}
  double operator()() { return 1 + 2 * draws_.uniform(next_++); }
  std::vector<double> of_each(int count, double unit) {
    std::vector<double> values;
    values.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) values.push_back(std::round(1e9 * unit * (*this)()) / 1e9);
    return values;
  }

 private:
  RandomStream draws_;
  std::uint64_t next_ = 0;
};

// Forwards of 10 to 30 ms; messages and sums that are no small part of it.
Costs costs_of(Uneven& uneven, int stages) {
  Costs costs;
  costs.forward_s = uneven.of_each(stages, 0.010);
  costs.backward_s = uneven.of_each(stages, 0.020);
  costs.recompute_s = uneven.of_each(stages, 0.010);
  costs.boundary_bytes = uneven.of_each(stages - 1, 4e6);
  costs.reduce_s = uneven.of_each(stages, 0.020);
  costs.stage_step_s = uneven.of_each(stages, 0.002);
  costs.step_s = 0.001;
  costs.link = {.latency_s = 1e-4, .bandwidth = 4e9};
  for (int worker = 0; worker + 1 < stages; worker += 2) {  // slower between every second two
    costs.links[{worker, worker + 1}] = costs.links[{worker + 1, worker}] = {5e-4, 1e9};
  }
  return costs;
}

MemoryModel memory_of(Uneven& uneven, int stages, int workers) {
  MemoryModel model;
  for (int stage = 0; stage < stages; ++stage) {
    const double stash = std::round(2e8 * uneven()), weights = std::round(1e8 * uneven());
    model.stages.push_back({.weights = weights,
                            .stash = stash,
                            .kept = std::round(stash / 10),
                            .forward_work = std::round(stash / 20),
                            .kept_forward_work = std::round(stash / 5),
                            .recompute_work = std::round(stash / 20),
                            .backward_work = std::round(stash / 4),
                            .activation = std::round(4e6 * uneven())});
  }
  model.weights.assign(static_cast<std::size_t>(workers), 2e8);
  model.gradients = model.weights;
  model.optimizer.assign(static_cast<std::size_t>(workers), 4e8);
  model.step_work.assign(static_cast<std::size_t>(workers), 5e7);
  return model;
}

struct Errors {
  double sum = 0, worst = 0;
  int count = 0;

  void add(double error) {
    sum += std::abs(error);
    worst = std::max(worst, std::abs(error));
    ++count;
  }
  void add(const Errors& other) {
    sum += other.sum;
    worst = std::max(worst, other.worst);
    count += other.count;
  }
  [[nodiscard]] nlohmann::ordered_json to_json() const {
    return {{"mean", count > 0 ? sum / count : 0}, {"worst", worst}, {"count", count}};
  }
};

struct Totals {
  Errors step, peak;
  int disturbed = 0;

  [[nodiscard]] nlohmann::ordered_json to_json() const {
    return {
        {"step_error", step.to_json()}, {"peak_error", peak.to_json()}, {"disturbed", disturbed}};
  }
};

// Of each worker.
struct Peaks {
  std::vector<double> predicted;
  Errors errors = {};
};

Peaks compare_peaks(const EmulationSetting& setting, const Emulation& emulation) {
  const Timeline timeline = simulate(setting.program, setting.costs);
  Peaks peaks{.predicted = worker_peaks(setting.program, timeline, setting.memory)};
  for (std::size_t worker = 0; worker < peaks.predicted.size(); ++worker) {
    peaks.errors.add(emulation.peak_bytes[worker] / peaks.predicted[worker] - 1);
  }
  return peaks;
}

using Summary = std::map<std::string, Totals>;  // by what the cases have in common

std::vector<std::string> parts_of(const Case& one) {
  return {"all", cat("stages ", one.spec.stages), one.barrier ? "barrier" : "no barrier"};
}

void print_case(const Case& one, const Options& options, const Program& program, double predicted_s,
                const Undisturbed& seen, const Peaks& peaks) {
  nlohmann::ordered_json method;  // null for schedules that have none
  if (one.spec.method) method = kMethods[static_cast<std::size_t>(*one.spec.method)];
  const Emulation& emulation = seen.emulation;
  const nlohmann::ordered_json line{{"schedule", one.schedule},
                                    {"method", method},
                                    {"fused", one.spec.fused},
                                    {"pairs", one.spec.pairs.value_or(1)},
                                    {"recompute", one.recompute},
                                    {"barrier", one.barrier},
                                    {"stages", one.spec.stages},
                                    {"micros", program.source.micros},
                                    {"groups", options.groups},
                                    {"stretch", emulation.stretch},
                                    {"predicted_s", predicted_s},
                                    {"measured_s", emulation.step_s},
                                    {"ratio", emulation.step_s / predicted_s},
                                    {"lag_s", emulation.lag_s},
                                    {"tries", seen.tries},
                                    {"predicted_peak", std::ranges::max(peaks.predicted)},
                                    {"measured_peak", std::ranges::max(emulation.peak_bytes)},
                                    {"worst_peak_error", peaks.errors.worst}};
  std::cout << line.dump() << std::endl;
}

void measure(const Case& one, const Options& options, Summary& summary) {
  const Program program = one.program();
  Uneven uneven(options.seed, one.spec.stages);
  const Costs costs = costs_of(uneven, one.spec.stages);
  const MemoryModel memory = memory_of(uneven, one.spec.stages, program.source.workers());
  const EmulationSetting setting{.program = program,
                                 .costs = costs,
                                 .memory = memory,
                                 .groups = options.groups,
                                 // With a barrier the first counts, too.
                                 .steps = options.steps - (one.barrier ? 1 : 0),
                                 .barrier = one.barrier,
                                 .micros_per_step = one.micros_per_step,
                                 .stretch = options.stretch};
  const double predicted_s = predicted_step_s(setting);
  const Undisturbed seen = emulate_undisturbed(setting, options.tries);
  const Peaks peaks = compare_peaks(setting, seen.emulation);
  for (const std::string& part : parts_of(one)) {
    Totals& totals = summary[part];
    totals.step.add(seen.emulation.step_s / predicted_s - 1);
    totals.peak.add(peaks.errors);
    if (is_disturbed(seen.emulation)) ++totals.disturbed;
  }
  print_case(one, options, program, predicted_s, seen, peaks);
}

void measure_all(const Options& options) {
  Summary summary;
  for (const Case& one : cases_of(options)) measure(one, options, summary);
  for (const auto& [part, totals] : summary) {
    nlohmann::ordered_json line{{"summary", part}};
    line.update(totals.to_json());
    std::cout << line.dump() << std::endl;
  }
}

}  // namespace
}  // namespace chimera

int main(int argc, char** argv) {
  CLI::App app("Predicted and measured steps of the emulated cluster");
  chimera::Options options;
  app.add_option("--stages", options.stages, "D")->delimiter(',');
  app.add_option("--schedules", options.schedules, "By name; all unless given")->delimiter(',');
  app.add_option("--seed", options.seed, "Of costs and sizes");
  app.add_option("--groups", options.groups, "W");
  app.add_option("--steps", options.steps,
                 "Of synchronous schedules, from 2; one less with a barrier")
      ->check(CLI::Range(2, 1000));
  app.add_option("--tries", options.tries, "Of a case whose emulation is disturbed, at most");
  app.add_option("--stretch", options.stretch, "Real seconds a predicted one; chosen if 0");
  CLI11_PARSE(app, argc, argv);
  try {
    chimera::measure_all(options);
  } catch (const chimera::Error& error) {
    std::cerr << "emulate_accuracy: error: " << error.what() << "\n";
    return chimera::exit_code(error.code());
  }
}
