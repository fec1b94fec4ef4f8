// What the runtime costs: measured over simulated makespan of a step whose stages wait a set time
// instead of computing, so that many workers run on few cores. An asynchronous schedule does not
// drain between steps: its measure is a run of several.
//
//     build/runtime_overhead
//     mpirun -n 16 build/runtime_overhead --transport mpi --stages 8 --groups 2 --forward-ms 20
//
// Prints one JSON object a configuration: the median over repetitions, which are interleaved over
// the configurations so that a noisy minute touches all of them alike. The simulated makespan has
// no cost but the waits; what is above it is the runtime, the transport and the machine's timers.
// All say the same work: N micro-batches, their times and message sizes, which halving cuts in two.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "bench/step.h"
#include "chimera/base/check.h"
#include "chimera/base/error.h"
#include "chimera/generate/generate.h"
#include "chimera/schedule/lower.h"
#include "chimera/schedule/recompute.h"
#include "chimera/schedule/verify.h"
#include "chimera/simulate/simulate.h"

namespace chimera {
namespace {

// ---- what is measured --------------------------------------------------------------------------

// A schedule and what of its specification is not the same for all.
struct Variant {
  std::string_view label;  // in options and output
  std::string_view schedule;
  Spec spec = {};  // without stages and micros
  bool recompute = false;
};

constexpr int kSteps = 2;  // of an asynchronous schedule
constexpr Spec kAsynchronous = {.steps = kSteps};
constexpr Spec kDirect = {.method = Method::kDirect};
constexpr Spec kDoubling = {.method = Method::kDoubling};
constexpr Spec kFused = {.method = Method::kDoubling, .fused = true};
constexpr Spec kHalving = {.method = Method::kHalving};

constexpr Spec two_pairs(Spec spec) {
  spec.pairs = 2;
  return spec;
}

constexpr auto kVariants = std::to_array<Variant>({
    {"gpipe", "gpipe"},
    {"1f1b", "1f1b"},
    {"1f1b recompute", "1f1b", {}, true},
    {"gems", "gems"},
    {"chimera direct", "chimera", kDirect},
    {"chimera doubling", "chimera", kDoubling},
    {"chimera doubling recompute", "chimera", kDoubling, true},
    {"chimera doubling fused", "chimera", kFused},
    {"chimera halving", "chimera", kHalving},
    {"chimera direct f=2", "chimera", two_pairs(kDirect)},
    {"chimera doubling f=2", "chimera", two_pairs(kDoubling)},
    {"chimera doubling fused f=2", "chimera", two_pairs(kFused)},
    {"chimera halving f=2", "chimera", two_pairs(kHalving)},
    {"pipedream", "pipedream", kAsynchronous},
    {"pipedream-2bw", "pipedream-2bw", kAsynchronous},
});

std::vector<std::string> labels() {
  std::vector<std::string> all;
  all.reserve(kVariants.size());
  for (const Variant& variant : kVariants) all.emplace_back(variant.label);
  return all;
}

// Whether the shape shows anything that others do not, in a time that others take too.
bool worth_it(const Variant& variant, int stages, int micros) {
  if (variant.schedule == "gems") return stages * micros <= 32;        // takes about N D B
  if (variant.spec.pairs) return stages == 8 && micros == 16;          // one shape is enough
  return variant.spec.method != Method::kDoubling || micros > stages;  // else it is direct
}

struct Case {
  Variant variant;
  int stages = 0, micros = 0;  // D, N of each of the groups
  int groups = 1;              // W
  double forward_s = 0, backward_s = 0;
  std::int64_t message_bytes = 0;
  std::vector<double> measured_s = {};

  // Into how many of the program's micro-batches one of the N is cut.
  [[nodiscard]] int parts() const { return variant.spec.method == Method::kHalving ? 2 : 1; }

  [[nodiscard]] Program program() const {
    Spec spec = variant.spec;
    spec.stages = stages;
    spec.micros = parts() * micros;
    Schedule schedule = generate(variant.schedule, spec);
    const std::vector<bool> recomputed(static_cast<std::size_t>(stages), variant.recompute);
    return lower(with_recompute(std::move(schedule), recomputed));
  }
};

// ---- how ---------------------------------------------------------------------------------------

WaitingStageSpec stage_spec(const Case& c, int stage) {
  return {.stage = stage,
          .stages = c.stages,
          .forward_s = c.forward_s / c.parts(),
          .backward_s = c.backward_s / c.parts(),
          .message_bytes = c.message_bytes / c.parts(),
          .gradient_elements = 1024};
}

double measure(const Case& c, Ranks& ranks) {
  const Program program = c.program();
  const StepSetting setting{program, c.groups, [&](int stage) { return stage_spec(c, stage); }};
  double taken_s = 0;
  ranks.run(setting.ranks(), [&](Transport& transport) {
    const double seen_s = run_step(setting, transport);
    if (transport.rank() == 0) taken_s = seen_s;
  });
  return taken_s;
}

double simulated(const Case& c) {
  const WaitingStageSpec spec = stage_spec(c, 0);
  return makespan(simulate(c.program(), Costs::uniform(c.stages, spec.forward_s, spec.backward_s)));
}

struct Options {
  std::vector<std::string> schedules = labels();
  std::vector<int> stages = {4, 8, 16};
  std::vector<int> units = {1, 2, 4};  // N / D
  std::vector<double> forward_ms = {10, 2};
  std::vector<std::int64_t> bytes = {4096, 4 << 20};
  int groups = 1;  // W
  int repetitions = 5;
  std::string transport = "local";

  [[nodiscard]] bool has(std::string_view label) const {
    return std::find(schedules.begin(), schedules.end(), label) != schedules.end();
  }
};

// Of one shape, all schedules asked for.
void add_cases(const Options& options, const Case& shape, std::vector<Case>& cases) {
  for (const Variant& variant : kVariants) {
    if (!options.has(variant.label) || !worth_it(variant, shape.stages, shape.micros)) continue;
    cases.push_back(shape);
    cases.back().variant = variant;
    // The transport's channels hold whatever number of messages the schedule needs.
    CHECK(verify(cases.back().program()).ok());
  }
}

std::vector<Case> cases_of(const Options& options) {
  std::vector<Case> cases;
  for (const double forward_ms : options.forward_ms) {
    for (const std::int64_t bytes : options.bytes) {
      for (const int stages : options.stages) {
        for (const int unit : options.units) {
          const double forward_s = forward_ms / 1000;
          add_cases(options,
                    {{}, stages, unit * stages, options.groups, forward_s, 2 * forward_s, bytes},
                    cases);
        }
      }
    }
  }
  return cases;
}

void print(const Case& c, const Options& options) {
  const double expected = simulated(c), seen = median(c.measured_s);
  const Spec& spec = c.variant.spec;
  nlohmann::ordered_json method;  // null for schedules that have none
  if (spec.method) method = kMethods[static_cast<std::size_t>(*spec.method)];
  const nlohmann::ordered_json line{{"system", "chimera"},
                                    {"schedule", c.variant.label},
                                    {"method", method},
                                    {"fused", spec.fused},
                                    {"pairs", spec.pairs.value_or(1)},
                                    {"recompute", c.variant.recompute},
                                    {"steps", spec.steps.value_or(1)},
                                    {"transport", options.transport},
                                    {"groups", c.groups},
                                    {"stages", c.stages},
                                    {"micros", c.micros},
                                    {"forward_s", c.forward_s},
                                    {"backward_s", c.backward_s},
                                    {"bytes", c.message_bytes},
                                    {"measured_s", seen},
                                    {"simulated_s", expected},
                                    {"ratio", seen / expected}};
  std::cout << line.dump() << std::endl;
}

void measure_all(const Options& options) {
  std::vector<Case> cases = cases_of(options);
  const std::unique_ptr<Ranks> ranks = make_ranks(options.transport);
  for (int repetition = 0; repetition < options.repetitions; ++repetition) {
    for (Case& c : cases) c.measured_s.push_back(measure(c, *ranks));
  }
  if (!ranks->speaks()) return;
  for (const Case& c : cases) print(c, options);
}

}  // namespace
}  // namespace chimera

int main(int argc, char** argv) {
  CLI::App app("Measured over simulated makespan with stages that wait");
  chimera::Options options;
  app.add_option("--schedules", options.schedules, "By label; all unless given")
      ->delimiter(',')
      ->check(CLI::IsMember(chimera::labels()));
  app.add_option("--stages", options.stages, "D")->delimiter(',');
  app.add_option("--units", options.units, "N / D")->delimiter(',');
  app.add_option("--forward-ms", options.forward_ms, "Backward takes twice as long")
      ->delimiter(',');
  app.add_option("--bytes", options.bytes, "Of a message")->delimiter(',');
  app.add_option("--groups", options.groups, "W");
  app.add_option("--transport", options.transport, "local, or mpi if started with mpirun");
  app.add_option("--repetitions", options.repetitions, "The median of these is printed");
  CLI11_PARSE(app, argc, argv);
  try {
    chimera::measure_all(options);
  } catch (const chimera::Error& error) {
    std::cerr << "runtime_overhead: error: " << error.what() << "\n";
    return chimera::exit_code(error.code());
  }
}
