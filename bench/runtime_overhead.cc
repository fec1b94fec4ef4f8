// What the runtime costs: measured over simulated makespan of a step whose stages wait a set time
// instead of computing, so that many workers run on few cores.
//
// Prints one JSON object a configuration: the median over repetitions, which are interleaved over
// the configurations so that a noisy minute touches all of them alike. The simulated makespan has
// no cost but the waits; what is above it is the runtime, the transport and the machine's timers.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <barrier>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "chimera/base/error.h"
#include "chimera/generate/generate.h"
#include "chimera/runtime/launch.h"
#include "chimera/runtime/waiting_stage.h"
#include "chimera/runtime/worker.h"
#include "chimera/schedule/lower.h"
#include "chimera/simulate/simulate.h"

namespace chimera {
namespace {

struct Case {
  std::string schedule;
  int stages = 0, micros = 0;
  double forward_s = 0, backward_s = 0;
  std::int64_t message_bytes = 0;
  std::vector<double> measured_s = {};

  [[nodiscard]] Program program() const {
    return lower(generate(schedule, {.stages = stages, .micros = micros}));
  }
};

// From the first start to the last end of any worker, the optimizer's (empty) step left out.
double measure(const Case& c) {
  const Program program = c.program();
  const int workers = program.source.workers();
  std::barrier together(workers);
  Timeline timeline{std::vector<std::vector<Interval>>(static_cast<std::size_t>(workers))};
  launch_local(workers, {}, [&](Transport& transport) {
    Stages stages;
    for (const int stage : program.source.placement.stages_of(transport.rank())) {
      stages[stage] =
          std::make_unique<WaitingStage>(WaitingStageSpec{.stage = stage,
                                                          .stages = c.stages,
                                                          .forward_s = c.forward_s,
                                                          .backward_s = c.backward_s,
                                                          .message_bytes = c.message_bytes,
                                                          .gradient_elements = 1024});
    }
    Worker worker(program, {1, 0, transport.rank()}, std::move(stages), transport, {});
    worker.run_row();  // so that a thread's first allocations and page faults are not measured
    together.arrive_and_wait();
    timeline.rows[static_cast<std::size_t>(transport.rank())] = worker.run_row();
  });
  return makespan(from_origin(std::move(timeline)));
}

double simulated(const Case& c) {
  return makespan(simulate(c.program(), Costs::uniform(c.stages, c.forward_s, c.backward_s)));
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Options {
  std::vector<int> stages = {4, 8, 16};
  std::vector<int> units = {1, 2, 4};  // N / D
  std::vector<double> forward_ms = {10, 2};
  std::vector<std::int64_t> bytes = {4096, 4 << 20};
  int repetitions = 5;
};

std::vector<Case> cases(const Options& options) {
  std::vector<Case> all;
  for (const double forward_ms : options.forward_ms) {
    for (const std::int64_t bytes : options.bytes) {
      for (const int stages : options.stages) {
        for (const int unit : options.units) {
          for (const Generator& generator : generators()) {
            all.push_back({std::string(generator.name), stages, unit * stages, forward_ms / 1000,
                           2 * forward_ms / 1000, bytes});
          }
        }
      }
    }
  }
  return all;
}

void print(const Case& c) {
  const double expected = simulated(c), seen = median(c.measured_s);
  std::cout << nlohmann::ordered_json{{"system", "chimera"},      {"schedule", c.schedule},
                                      {"stages", c.stages},       {"micros", c.micros},
                                      {"forward_s", c.forward_s}, {"backward_s", c.backward_s},
                                      {"bytes", c.message_bytes}, {"measured_s", seen},
                                      {"simulated_s", expected},  {"ratio", seen / expected}}
                   .dump()
            << std::endl;
}

void measure_all(const Options& options) {
  std::vector<Case> all = cases(options);
  for (int repetition = 0; repetition < options.repetitions; ++repetition) {
    for (Case& c : all) c.measured_s.push_back(measure(c));
  }
  for (const Case& c : all) print(c);
}

}  // namespace
}  // namespace chimera

int main(int argc, char** argv) {
  CLI::App app("Measured over simulated makespan with stages that wait");
  chimera::Options options;
  app.add_option("--stages", options.stages, "D")->delimiter(',');
  app.add_option("--units", options.units, "N / D")->delimiter(',');
  app.add_option("--forward-ms", options.forward_ms, "Backward takes twice as long")
      ->delimiter(',');
  app.add_option("--bytes", options.bytes, "Of a message")->delimiter(',');
  app.add_option("--repetitions", options.repetitions, "The median of these is printed");
  CLI11_PARSE(app, argc, argv);
  try {
    chimera::measure_all(options);
  } catch (const chimera::Error& error) {
    std::cerr << "runtime_overhead: error: " << error.what() << "\n";
    return chimera::exit_code(error.code());
  }
}
