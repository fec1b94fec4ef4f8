// Each rank runs its worker's row as in training, in its own time (rank_clock.h); what it measures
// is the machine's. Tests: emulate_test.cc; bench/emulate_accuracy.cc compares at scale.
#include "chimera/runtime/emulate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <limits>
#include <memory>
#include <utility>

#include "chimera/base/clock.h"
#include "chimera/base/error.h"
#include "chimera/base/index.h"
#include "chimera/base/rank_clock.h"
#include "chimera/base/text.h"
#include "chimera/runtime/byte_meter.h"
#include "chimera/runtime/launch.h"
#include "chimera/runtime/tags.h"
#include "chimera/runtime/waiting_stage.h"
#include "chimera/runtime/worker.h"
#include "chimera/simulate/simulate.h"
#include "chimera/simulate/steady.h"
#include "chimera/transport/emulated_links.h"

namespace chimera {
namespace {

bool is_asynchronous(const EmulationSetting& setting) { return has_steps(setting.program.source); }

int repetitions(const EmulationSetting& setting) {
  return is_asynchronous(setting) ? 1 : setting.steps;
}

// ---- the setting

[[noreturn]] void refuse_setting(const std::string& why) {
  throw Error(ErrorCode::kUsage, "emulate: " + why);
}

void check_steps(const EmulationSetting& setting) {
  if (!is_asynchronous(setting)) {
    const int least = setting.barrier ? 1 : 2;
    if (setting.steps >= least) return;
    refuse_setting(cat("steps is ", setting.steps, "; expected at least ", least,
                       setting.barrier ? "" : ", for a step is measured from the end of another"));
  }
  const int micros = setting.program.source.micros, each = setting.micros_per_step;
  if (each >= 1 && micros % each == 0 && micros / each >= 2) return;
  refuse_setting(cat("schedule ", setting.program.source.name, " has ", micros,
                     " micro-batches in all and ", each,
                     " in a step; expected at least two whole steps, to measure from one to the "
                     "other"));
}

void check_memory(const MemoryModel& memory, int stages, int workers) {
  for (const auto* of_workers :
       {&memory.weights, &memory.gradients, &memory.optimizer, &memory.step_work}) {
    if (of_workers->size() == as_index(workers)) continue;
    refuse_setting(
        cat("the memory model is for ", of_workers->size(), " workers, the program for ", workers));
  }
  if (memory.stages.size() == as_index(stages)) return;
  refuse_setting(
      cat("the memory model is for ", memory.stages.size(), " stages, the program for ", stages));
}

void check_setting(const EmulationSetting& setting) {
  const int workers = setting.program.source.workers();
  if (setting.groups < 1) {
    refuse_setting(cat("groups is ", setting.groups, "; expected a number from 1"));
  }
  if (setting.groups > kMostEmulatedRanks / std::max(1, workers)) {
    refuse_setting(cat(setting.groups, " groups of ", workers, " workers are ",
                       std::int64_t{setting.groups} * workers, " ranks, each a thread; at most ",
                       kMostEmulatedRanks, " are run, emulate fewer groups"));
  }
  if (!(setting.stretch >= 0) || !std::isfinite(setting.stretch)) {
    refuse_setting(cat("stretch is ", setting.stretch,
                       "; expected real seconds per predicted second, or 0 to have them chosen"));
  }
  check_steps(setting);
  check_memory(setting.memory, setting.program.source.stages(), workers);
}

double predicted_run_s(const EmulationSetting& setting) {
  return makespan(simulate(repeated(setting.program, repetitions(setting)), setting.costs));
}

// ---- from ends of steps to the time of one

struct Steps {
  std::vector<double> seconds = {};  // of those that count
  int first = 0;                     // which of the steps run that is
};

// Of steps that follow each other.
Steps from_ends(const std::vector<double>& ends) {
  Steps steps{.first = 1};
  for (std::size_t i = 1; i < ends.size(); ++i) steps.seconds.push_back(ends[i] - ends[i - 1]);
  return steps;
}

// Which of them is the median.
int median_step(const std::vector<double>& seconds) {
  std::vector<std::pair<double, int>> sorted;
  sorted.reserve(seconds.size());
  for (const double each : seconds) sorted.emplace_back(each, static_cast<int>(sorted.size()));
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2].second;
}

double last_end(const std::vector<Interval>& row) { return row.empty() ? 0 : row.back().end_s; }

// ---- a rank

// What all ranks share.
struct Shared {
  const EmulationSetting& setting;
  double stretch;
  EmulatedLinks links;
  std::deque<ByteMeter> meters;  // by rank; a deque, for they cannot move
};

// What a rank measured, in real seconds of the steady clock.
struct Measured {
  std::vector<std::vector<Interval>> rows, reductions;  // of each repetition
  double lag_s = 0;
};

EmulatedCosts stretched_costs(const EmulationSetting& setting, double stretch) {
  const int workers = setting.program.source.workers();
  const Costs& costs = setting.costs;
  return {.message =
              [&costs, workers, stretch](int from, int to, Tag tag, std::size_t) {
                const Link& link = costs.link_of({from % workers, to % workers});
                const double bytes = costs.boundary_bytes.empty()
                                         ? 0
                                         : costs.boundary_bytes[as_index(boundary_of(tag))];
                return EmulatedCosts::OfMessage{stretch * bytes / link.bandwidth,
                                                stretch * link.latency_s};
              },
          .sum = [&costs, stretch](std::span<const int>, Tag tag,
                                   std::size_t) { return stretch * costs.reduce(stage_of(tag)); },
          .sums_at_once = costs.reduces_at_once};
}

class EmulatedRank {
 public:
  EmulatedRank(Shared& shared, const Rank& rank)
      : shared_(shared),
        program_(shared.setting.program),
        real_(rank.transport),
        seat_{shared.setting.groups, real_.rank() / program_.source.workers(),
              real_.rank() % program_.source.workers()},
        held_(program_.source.placement.stages_of(seat_.worker)),
        meter_(shared.meters[as_index(real_.rank())]),
        emulated_(shared.links.transport(real_, clock_)),
        worker_(program_, seat_, make_stages(), *emulated_,
                {.on_action = rank.on_action,
                 .step = [this](const Action& action) { step(action); },
                 .sums_alone = true}) {}

  Measured run() {
    Measured measured;
    for (int i = 0; i < repetitions(shared_.setting); ++i) {
      if (i == 0 || shared_.setting.barrier) begin_together();
      measured.rows.push_back(worker_.run_row());
      measured.lag_s = std::max(measured.lag_s, clock_.lag_s());
      measured.reductions.push_back(worker_.take_reductions());
    }
    return measured;
  }

 private:
  Stages make_stages() {
    Stages stages;
    for (const int stage : held_) stages[stage] = std::make_unique<WaitingStage>(spec_of(stage));
    return stages;
  }

  [[nodiscard]] WaitingStageSpec spec_of(int stage) {
    const Costs& costs = shared_.setting.costs;
    const auto& memory = shared_.setting.memory.stages;
    const auto time = [&](Op op) {
      return shared_.stretch * costs.compute({.op = op, .stage = static_cast<std::int16_t>(stage)});
    };
    return {.stage = stage,
            .stages = program_.source.stages(),
            .forward_s = time(Op::kForward),
            .backward_s = time(Op::kBackward),
            .recompute_s = time(Op::kRecompute),
            .message_bytes = 8,
            .gradient_elements = 1,
            .clock = &clock_,
            .meter = &meter_,
            .memory = memory[as_index(stage)],
            .input_bytes = stage > 0 ? memory[as_index(stage - 1)].activation : 0};
  }

  void step(const Action& action) {
    const EmulationSetting& setting = shared_.setting;
    const HeldBytes held(&meter_, setting.memory.step_work[as_index(seat_.worker)]);
    clock_.wait_until(clock_.now_s() + shared_.stretch * setting.costs.step(action.stage, held_));
  }

  // All wait for a time that is far enough ahead for all to hear of it.
  void begin_together() {
    std::vector<double> times(as_index(real_.size()));
    times[as_index(real_.rank())] = now_s();
    const Buffer buffer{DType::kFloat64, reinterpret_cast<std::byte*>(times.data()), times.size()};
    finish(*real_.all_reduce_sum(buffer, all_ranks(real_), kStepTag));
    constexpr double kHeardByAll = 2e-3, kByEachRank = 50e-6;
    clock_.wait_until(*std::max_element(times.begin(), times.end()) + kHeardByAll +
                      kByEachRank * real_.size());
  }

  Shared& shared_;
  const Program& program_;
  Transport& real_;
  Seat seat_;
  std::vector<int> held_;  // stages
  ByteMeter& meter_;
  PacedClock clock_;
  std::unique_ptr<Transport> emulated_;
  Worker worker_;
};

// ---- all of them

double resident_bytes(const MemoryModel& memory, std::size_t worker) {
  return memory.weights[worker] + memory.gradients[worker] + memory.optimizer[worker];
}

std::vector<Measured> run_ranks(Shared& shared, double predicted_s) {
  const EmulationSetting& setting = shared.setting;
  const int workers = setting.program.source.workers();
  const int ranks = setting.groups * workers;
  for (int rank = 0; rank < ranks; ++rank) {
    shared.meters.emplace_back(resident_bytes(setting.memory, as_index(rank % workers)));
  }
  std::vector<Measured> measured(as_index(ranks));
  // One wait can be as long as the whole run: of the last stage for its first micro-batch.
  const LaunchOptions options{.limit_s = 30 + 2 * shared.stretch * predicted_s};
  launch_threads(ranks, options, [&](const Rank& rank) {
    measured[as_index(rank.transport.rank())] = EmulatedRank(shared, rank).run();
  });
  return measured;
}

Steps steps_of(const std::vector<Measured>& measured, const EmulationSetting& setting) {
  const std::size_t count = measured.front().rows.size();
  std::vector<double> starts(count, std::numeric_limits<double>::infinity()), ends(count, 0.0);
  for (const Measured& rank : measured) {
    for (std::size_t i = 0; i < count; ++i) {
      if (rank.rows[i].empty()) continue;
      starts[i] = std::min(starts[i], rank.rows[i].front().start_s);
      ends[i] = std::max(ends[i], last_end(rank.rows[i]));
    }
  }
  if (!setting.barrier && !is_asynchronous(setting)) return from_ends(ends);
  Steps steps;
  for (std::size_t i = 0; i < count; ++i) steps.seconds.push_back(ends[i] - starts[i]);
  return steps;
}

// Of group 0, in predicted seconds.
Timeline timeline_of(const std::vector<Measured>& measured, int workers, std::size_t repetition,
                     double stretch) {
  Timeline timeline;
  for (int worker = 0; worker < workers; ++worker) {
    timeline.rows.push_back(measured[as_index(worker)].rows[repetition]);
    timeline.reductions.push_back(measured[as_index(worker)].reductions[repetition]);
  }
  timeline = from_origin(std::move(timeline));
  for (auto* rows : {&timeline.rows, &timeline.reductions}) {
    for (auto& row : *rows) {
      for (Interval& interval : row) {
        interval.start_s /= stretch;
        interval.end_s /= stretch;
      }
    }
  }
  return timeline;
}

}  // namespace

double predicted_step_s(const EmulationSetting& setting) {
  check_setting(setting);
  if (is_asynchronous(setting)) {
    return steady_step_s(simulate(setting.program, setting.costs), setting.micros_per_step);
  }
  if (setting.barrier) return makespan(simulate(setting.program, setting.costs));
  return overlapped_step_s(setting.program, setting.costs, setting.steps);
}

double default_stretch(const EmulationSetting& setting) {
  constexpr double kShortest = 4e-3, kForEachRank = 100e-6, kWholeRun = 20;
  double shortest_s = std::numeric_limits<double>::infinity();
  for (const auto* times : {&setting.costs.forward_s, &setting.costs.backward_s}) {
    for (const double time_s : *times) {
      if (time_s > 0) shortest_s = std::min(shortest_s, time_s);
    }
  }
  const double run_s = predicted_run_s(setting);
  if (run_s <= 0) return 1;
  const int ranks = setting.groups * setting.program.source.workers();
  const double long_enough = std::max(kShortest, kForEachRank * ranks) / shortest_s;
  return std::min(kWholeRun / run_s, std::isinf(shortest_s) ? 1 : long_enough);
}

Emulation emulate(const EmulationSetting& setting) {
  check_setting(setting);
  const double predicted_s = predicted_run_s(setting);  // also checks the costs
  const double stretch = setting.stretch > 0 ? setting.stretch : default_stretch(setting);
  const int workers = setting.program.source.workers();
  Shared shared{setting,
                stretch,
                EmulatedLinks(setting.groups * workers, stretched_costs(setting, stretch)),
                {}};
  const std::vector<Measured> measured = run_ranks(shared, predicted_s);

  Emulation emulation{.stretch = stretch};
  const Steps steps = steps_of(measured, setting);
  const int median = median_step(steps.seconds);
  emulation.timeline = timeline_of(measured, workers, as_index(steps.first + median), stretch);
  emulation.step_s = is_asynchronous(setting)
                         ? steady_step_s(emulation.timeline, setting.micros_per_step)
                         : steps.seconds[as_index(median)] / stretch;
  emulation.peak_bytes.resize(as_index(workers), 0.0);
  for (std::size_t rank = 0; rank < measured.size(); ++rank) {
    double& peak = emulation.peak_bytes[rank % as_index(workers)];
    peak = std::max(peak, shared.meters[rank].peak());
    emulation.lag_s = std::max(emulation.lag_s, measured[rank].lag_s / stretch);
  }
  return emulation;
}

}  // namespace chimera
