// How much of an all-reduce the runtime hides behind bubbles, of what the simulator says it can:
// the policy at-end against eager-opt. Only the last stage has gradients; its all-reduce is begun
// early by Chimera's first and last worker, and is made as long as a given part of the step. How
// long it takes in a step is what a step with at-end takes more than its computation; the
// simulator, given that, says what eager-opt could save.
//
//     mpirun -n 4 build/reduce_overlap --transport mpi
//
// Prints one JSON object; times are medians over the repetitions, in which the all-reduce alone and
// the policies take turns.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <iostream>
#include <nlohmann/json.hpp>
#include <vector>

#include "bench/step.h"
#include "chimera/base/clock.h"
#include "chimera/base/error.h"
#include "chimera/generate/generate.h"
#include "chimera/runtime/tags.h"
#include "chimera/runtime/worker.h"
#include "chimera/schedule/lower.h"
#include "chimera/simulate/simulate.h"

namespace chimera {
namespace {

struct Options {
  int stages = 4, micros = 4;
  double forward_ms = 20;
  double part = 0.25;  // of the step
  int repetitions = 7;
  std::string transport = "local";
};

constexpr std::array kPolicies = {ReducePolicy::kAtEnd, ReducePolicy::kEagerOpt};

class Overlap {
 public:
  explicit Overlap(const Options& options)
      : options_(options),
        forward_s_(options.forward_ms / 1000),
        ranks_(make_ranks(options.transport)) {
    const Schedule schedule =
        generate("chimera", {.stages = options.stages, .micros = options.micros});
    for (const ReducePolicy policy : kPolicies) programs_.push_back(lower(schedule, policy));
  }

  void run() {
    const double compute_s = simulated(programs_[0], 0);
    fit_gradient(options_.part * compute_s);
    std::array<std::vector<double>, 2> seen;
    std::vector<double> reductions;
    for (int i = 0; i < options_.repetitions; ++i) {
      reductions.push_back(measure_reduce(2));
      for (std::size_t p = 0; p < 2; ++p) seen[p].push_back(measure(programs_[p]));
    }
    if (!ranks_->speaks()) return;
    const double at_end_s = median(seen[0]), eager_s = median(seen[1]);
    const double reduce_s = at_end_s - compute_s;
    const double possible_s = simulated(programs_[0], reduce_s) - simulated(programs_[1], reduce_s);
    std::cout << nlohmann::ordered_json{{"transport", options_.transport},
                                        {"stages", options_.stages},
                                        {"micros", options_.micros},
                                        {"gradient_bytes", elements_ * sizeof(float)},
                                        {"reduce_alone_s", median(reductions)},
                                        {"reduce_s", reduce_s},
                                        {"compute_s", compute_s},
                                        {"at_end_s", at_end_s},
                                        {"eager_opt_s", eager_s},
                                        {"simulated_at_end_s", simulated(programs_[0], reduce_s)},
                                        {"simulated_eager_opt_s",
                                         simulated(programs_[1], reduce_s)},
                                        {"hidden", (at_end_s - eager_s) / possible_s}}
                     .dump()
              << std::endl;
  }

 private:
  [[nodiscard]] int last() const { return options_.stages - 1; }

  [[nodiscard]] double simulated(const Program& program, double reduce_s) const {
    Costs costs = Costs::uniform(options_.stages, forward_s_, 2 * forward_s_);
    costs.reduce_s.assign(static_cast<std::size_t>(options_.stages), 0.0);
    costs.reduce_s.back() = reduce_s;
    return makespan(simulate(program, costs));
  }

  [[nodiscard]] double measure(const Program& program) {
    const StepSetting setting{program, 1, [this](int stage) {
                                return WaitingStageSpec{
                                    .stage = stage,
                                    .stages = options_.stages,
                                    .forward_s = forward_s_,
                                    .backward_s = 2 * forward_s_,
                                    .message_bytes = 4096,
                                    .gradient_elements = stage == last() ? elements_ : 0};
                              }};
    double taken_s = 0;
    ranks_->run(setting.ranks(), [&](Transport& transport) {
      const double seen_s = run_step(setting, transport);
      if (transport.rank() == 0) taken_s = seen_s;
    });
    return taken_s;
  }

  // The last stage's all-reduce alone, in the runtime's buckets, the other ranks idle.
  [[nodiscard]] double measure_reduce(int repetitions) {
    double seen_s = 0;
    const std::vector<int> members = {0, last()};
    ranks_->run(options_.stages, [&](Transport& transport) {
      const bool member = transport.rank() == 0 || transport.rank() == last();
      std::vector<float> values(member ? elements_ : 0);
      std::vector<double> times;  // the same on all ranks
      for (int i = 0; i < repetitions + 1; ++i) {
        (void)gather_numbers(transport, 0);
        const double begin_s = now_s();
        if (member) reduce(transport, values, members);
        times.push_back(std::ranges::max(gather_numbers(transport, now_s() - begin_s)));
      }
      times.erase(times.begin());  // page faults
      if (options_.transport != "local" || transport.rank() == 0) seen_s = median(times);
    });
    return seen_s;
  }

  static void reduce(Transport& transport, std::vector<float>& values,
                     const std::vector<int>& members) {
    const std::size_t bucket = WorkerOptions{}.bucket_bytes / sizeof(float);
    std::vector<std::unique_ptr<Reduction>> sums;
    for (std::size_t begin = 0; begin < values.size(); begin += bucket) {
      const Buffer buffer{DType::kFloat32, reinterpret_cast<std::byte*>(values.data() + begin),
                          std::min(bucket, values.size() - begin)};
      sums.push_back(transport.all_reduce_sum(buffer, members,
                                              reduce_tag(0, 0, static_cast<int>(sums.size()))));
    }
    for (const auto& sum : sums) finish(*sum);
  }

  void fit_gradient(double target_s) {
    elements_ = std::size_t{16} << 20;
    for (int i = 0; i < 3; ++i) {
      const double seen_s = measure_reduce(5);
      elements_ = static_cast<std::size_t>(static_cast<double>(elements_) * target_s / seen_s);
    }
  }

  const Options options_;
  const double forward_s_;
  const std::unique_ptr<Ranks> ranks_;
  std::vector<Program> programs_;  // by policy
  std::size_t elements_ = 0;       // of the last stage's gradient
};

}  // namespace
}  // namespace chimera

int main(int argc, char** argv) {
  CLI::App app("What of an all-reduce is hidden behind bubbles, of what could be");
  chimera::Options options;
  app.add_option("--stages", options.stages, "D");
  app.add_option("--micros", options.micros, "N");
  app.add_option("--forward-ms", options.forward_ms, "Backward takes twice as long");
  app.add_option("--part", options.part, "Of the step that the all-reduce takes");
  app.add_option("--repetitions", options.repetitions);
  app.add_option("--transport", options.transport, "local, or mpi if started with mpirun");
  CLI11_PARSE(app, argc, argv);
  try {
    chimera::Overlap(options).run();
  } catch (const chimera::Error& error) {
    std::cerr << "reduce_overlap: error: " << error.what() << "\n";
    return chimera::exit_code(error.code());
  }
}
