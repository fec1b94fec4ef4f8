// What ranks measure (emulated_rank.h), and how it becomes the time of a step. Tests:
// emulate_test.cc; bench/emulate_accuracy.cc compares at scale.
#include "chimera/runtime/emulate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "chimera/base/error.h"
#include "chimera/base/index.h"
#include "chimera/base/text.h"
#include "chimera/runtime/emulated_rank.h"
#include "chimera/simulate/simulate.h"
#include "chimera/simulate/steady.h"

namespace chimera {
namespace {

bool is_asynchronous(const EmulationSetting& setting) { return has_steps(setting.program.source); }

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

// ---- all of them

double resident_bytes(const MemoryModel& memory, std::size_t worker) {
  return memory.weights[worker] + memory.gradients[worker] + memory.optimizer[worker];
}

std::vector<MeasuredRank> run_ranks(EmulationShared& shared, double predicted_s) {
  const EmulationSetting& setting = shared.setting;
  const int workers = setting.program.source.workers();
  const int ranks = setting.groups * workers;
  for (int rank = 0; rank < ranks; ++rank) {
    shared.meters.emplace_back(resident_bytes(setting.memory, as_index(rank % workers)));
  }
  std::vector<MeasuredRank> measured(as_index(ranks));
  // One wait can be as long as the whole run: of the last stage for its first micro-batch.
  const LaunchOptions options{.limit_s = 30 + 2 * shared.stretch * predicted_s};
  launch_threads(ranks, options, [&](const Rank& rank) {
    measured[as_index(rank.transport.rank())] = run_emulated_rank(shared, rank);
  });
  return measured;
}

Steps steps_of(const std::vector<MeasuredRank>& measured, const EmulationSetting& setting) {
  const std::size_t count = measured.front().rows.size();
  std::vector<double> starts(count, std::numeric_limits<double>::infinity()), ends(count, 0.0);
  for (const MeasuredRank& rank : measured) {
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
Timeline timeline_of(const std::vector<MeasuredRank>& measured, int workers, std::size_t repetition,
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
  EmulationShared shared{setting,
                         stretch,
                         EmulatedLinks(setting.groups * workers, stretched_costs(setting, stretch)),
                         {}};
  const std::vector<MeasuredRank> measured = run_ranks(shared, predicted_s);

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
