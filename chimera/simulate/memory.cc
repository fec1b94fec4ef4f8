// Every action is a few changes of its worker's level at known times; added up in order of time
// they are the level. Test: memory_test.cc; equivalence/memory_test.cc compares with what is
// measured.
#include "chimera/simulate/memory.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "chimera/schedule/recompute.h"

namespace chimera {
namespace {

struct Change {
  double time_s;
  double bytes;
  bool is_own;  // false: another worker took a message
};

class Changes {
 public:
  Changes(const Program& program, const MemoryModel& model)
      : model_(model),
        stages_(program.source.stages()),
        recomputed_(program.rows, stages_, program.source.micros),
        workers_(program.rows.size()) {}

  void add(std::size_t worker, const Interval& interval) {
    const Action& action = interval.action;
    if (is_compute(action.op)) add_compute(worker, interval);
    if (action.op == Op::kStep) during(worker, interval, model_.step_work[worker]);
    if (action.op == Op::kStashWeights) put(worker, interval.start_s, stage(action).weights);
    if (action.op == Op::kFreeWeights) put(worker, interval.end_s, -stage(action).weights);
  }

  [[nodiscard]] std::vector<Level> levels(std::size_t worker) {
    auto& changes = workers_[worker];
    // In the order of the row at one time, so that an action that takes none has its peak, too.
    std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
      return std::tie(a.time_s, a.is_own) < std::tie(b.time_s, b.is_own);
    });
    double bytes = model_.weights[worker] + model_.gradients[worker] + model_.optimizer[worker];
    std::vector<Level> levels = {{0, bytes}};
    for (const Change& change : changes) {
      bytes += change.bytes;
      levels.push_back({change.time_s, bytes});
    }
    return levels;
  }

 private:
  // A result: whether it is a gradient, the stage that takes it, the micro-batch.
  using Parcel = std::tuple<bool, int, int>;
  struct Held {
    std::size_t worker;
    double bytes;
  };

  [[nodiscard]] const StageMemory& stage(const Action& action) const {
    return model_.stages[static_cast<std::size_t>(action.stage)];
  }
  void put(std::size_t worker, double time_s, double bytes) {
    if (bytes != 0) workers_[worker].push_back({time_s, bytes, true});
  }
  void during(std::size_t worker, const Interval& interval, double bytes) {
    put(worker, interval.start_s, bytes);
    put(worker, interval.end_s, -bytes);
  }

  // Micro-batches of a span run one after the other, for equal parts of the time.
  void add_compute(std::size_t worker, const Interval& interval) {
    const double length = (interval.end_s - interval.start_s) / interval.action.span;
    for (int i = 0; i < interval.action.span; ++i) {
      Interval one = interval;
      one.action.micro += i;
      one.action.span = 1;
      one.start_s = interval.start_s + i * length;
      one.end_s = i + 1 == interval.action.span ? interval.end_s : one.start_s + length;
      add_one(worker, one);
    }
  }

  void add_one(std::size_t worker, const Interval& interval) {
    const Action& action = interval.action;
    const StageMemory& memory = stage(action);
    if (action.op == Op::kForward) {
      const bool again = recomputed_.contains(action.stage, action.micro);
      if (action.stage > 0) take({false, action.stage, action.micro}, interval.start_s);
      put(worker, interval.start_s, again ? memory.kept : memory.stash);
      during(worker, interval, again ? memory.kept_forward_work : memory.forward_work);
      if (action.stage + 1 < stages_) {
        give({false, action.stage + 1, action.micro}, worker, interval.end_s, memory.activation);
      }
    } else if (action.op == Op::kRecompute) {
      put(worker, interval.start_s, memory.stash - memory.kept);
      during(worker, interval, memory.recompute_work);
    } else if (yields_gradient(action.op)) {
      if (action.stage + 1 < stages_) {
        take({true, action.stage, action.micro}, interval.start_s);
      }
      during(worker, interval, memory.backward_work);
      if (action.stage > 0) {
        const double bytes = model_.stages[static_cast<std::size_t>(action.stage) - 1].activation;
        give({true, action.stage - 1, action.micro}, worker, interval.end_s, bytes);
      }
    }
    if (ends_stash(action.op)) put(worker, interval.end_s, -memory.stash);
  }

  void give(const Parcel& parcel, std::size_t worker, double time_s, double bytes) {
    ++parcels_[parcel].known;
    parcels_[parcel].held = {worker, bytes};
    put(worker, time_s, bytes);
    settle(parcel);
  }
  void take(const Parcel& parcel, double time_s) {
    ++parcels_[parcel].known;
    parcels_[parcel].taken_s = time_s;
    settle(parcel);
  }
  // Rows come one worker after the other, so a parcel may be taken before it is given.
  void settle(const Parcel& parcel) {
    const Transit& transit = parcels_[parcel];
    if (transit.known < 2) return;
    workers_[transit.held.worker].push_back({transit.taken_s, -transit.held.bytes, false});
    parcels_.erase(parcel);
  }
  struct Transit {
    int known = 0;  // of its two ends
    Held held = {};
    double taken_s = 0;
  };

  const MemoryModel& model_;
  int stages_;
  Recomputed recomputed_;
  std::vector<std::vector<Change>> workers_;
  std::map<Parcel, Transit> parcels_;
};

}  // namespace

std::vector<std::vector<Level>> memory_levels(const Program& program, const Timeline& timeline,
                                              const MemoryModel& model) {
  Changes changes(program, model);
  for (std::size_t worker = 0; worker < timeline.rows.size(); ++worker) {
    for (const Interval& interval : timeline.rows[worker]) changes.add(worker, interval);
  }
  std::vector<std::vector<Level>> levels;
  for (std::size_t worker = 0; worker < timeline.rows.size(); ++worker) {
    levels.push_back(changes.levels(worker));
  }
  return levels;
}

double peak_bytes(const std::vector<Level>& levels) {
  double peak = 0;
  for (const Level& level : levels) peak = std::max(peak, level.bytes);
  return peak;
}

std::vector<double> worker_peaks(const Program& program, const Timeline& timeline,
                                 const MemoryModel& model) {
  std::vector<double> peaks;
  for (const auto& levels : memory_levels(program, timeline, model)) {
    peaks.push_back(peak_bytes(levels));
  }
  return peaks;
}

}  // namespace chimera
