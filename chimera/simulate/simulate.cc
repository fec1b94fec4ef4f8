// An action starts when its worker is free and what it needs is there; since workers do their rows
// in order and channels are queues, the times follow from the order alone and no clock or event
// queue is needed: each action's times are final when it is first possible (walk.h).
//
//   compute      start = free;  end = start + cost
//   send         takes the worker no time; the message leaves when the channel is free, keeps it
//                for bytes / bandwidth, and arrives a latency later
//   receive      end = max(free, arrival)
//   reduce begin takes no time; the all-reduce runs from the last begin of its stage group
//   reduce wait  end = max(free, last begin + cost)
//   stash, free  take no time
//
// All-reduces of different stages do not slow each other or the messages. Tests: simulate_test.cc.
#include "chimera/simulate/simulate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <queue>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/schedule/rounds.h"
#include "chimera/schedule/transfers.h"
#include "chimera/schedule/walk.h"

namespace chimera {
namespace {

void check_times(const std::vector<double>& times, int stages, const char* what, bool optional) {
  if (optional && times.empty()) return;
  if (static_cast<int>(times.size()) != stages) {
    throw Error(ErrorCode::kUsage, cat("costs: ", times.size(), " ", what, " for ", stages,
                                       " stages; expected one a stage"));
  }
  for (const double time : times) {
    if (time >= 0 && std::isfinite(time)) continue;
    throw Error(ErrorCode::kUsage,
                cat("costs: ", what, " contains ", time, "; expected numbers from 0"));
  }
}

void check(const Costs& costs, int stages) {
  check_times(costs.forward_s, stages, "forward times", false);
  check_times(costs.backward_s, stages, "backward times", false);
  check_times(costs.recompute_s, stages, "recompute times", true);
  check_times(costs.reduce_s, stages, "all-reduce times", true);
  check_times(costs.boundary_bytes, stages - 1, "boundary sizes", true);
  check_times({costs.latency_s, costs.step_s}, 2, "latency and step times", false);
  if (!(costs.bandwidth > 0)) {
    throw Error(ErrorCode::kUsage, cat("costs: bandwidth is ", costs.bandwidth,
                                       "; expected bytes per second above 0"));
  }
}

constexpr double kUnderWay = std::numeric_limits<double>::infinity();

class Simulator {
 public:
  Simulator(const Program& program, const Costs& costs)
      : program_(program), costs_(costs), free_(program.rows.size(), 0.0), rounds_(program) {
    timeline_.rows.resize(program.rows.size());
    timeline_.reductions.resize(program.rows.size());
  }

  Timeline run() {
    const auto stops = walk(program_.rows, [this](std::size_t worker, std::size_t position) {
      return attempt(worker, program_.rows[worker][position]);
    });
    for (std::size_t worker = 0; worker < stops.size(); ++worker) {
      if (stops[worker] == program_.rows[worker].size()) continue;
      throw Error(ErrorCode::kUsage, cat("simulate: worker ", worker, " waits for ever at ",
                                         to_string(program_.rows[worker][stops[worker]]),
                                         "; verify the schedule to see why"));
    }
    return std::move(timeline_);
  }

 private:
  struct Channel {
    double free_s = 0;
    std::queue<double> arrivals;
  };
  struct Reduction {
    int begun = 0;  // members that have
    double last_begin_s = 0;
  };

  Channel& channel(std::size_t worker, const Action& action) {
    return channels_[channel_of(program_.source.placement, static_cast<int>(worker), action)];
  }

  void send(std::size_t worker, const Action& action) {
    Channel& to = channel(worker, action);
    to.free_s =
        std::max(to.free_s, free_[worker]) + costs_.message_bytes(action) / costs_.bandwidth;
    to.arrivals.push(to.free_s + costs_.latency_s);
  }

  void record(std::size_t worker, const Action& action, double end) {
    timeline_.rows[worker].push_back({action, free_[worker], end});
    free_[worker] = end;
  }

  void begin(std::size_t worker, const Action& action) {
    Reduction& reduction = rounds_.begin(worker, action.stage);
    ++reduction.begun;
    reduction.last_begin_s = std::max(reduction.last_begin_s, free_[worker]);
    timeline_.reductions[worker].push_back({action, free_[worker], kUnderWay});
  }

  void end_reduction(std::size_t worker, int stage, double end_s) {
    rounds_.finish(worker, stage);
    auto& reductions = timeline_.reductions[worker];
    const auto under_way = std::find_if(reductions.rbegin(), reductions.rend(), [&](const auto& r) {
      return r.action.stage == stage && r.end_s == kUnderWay;
    });
    if (under_way != reductions.rend()) under_way->end_s = end_s;
  }

  bool attempt(std::size_t worker, const Action& action) {
    double end = free_[worker] + costs_.compute(action);
    if (is_send(action.op)) {
      send(worker, action);
    } else if (is_recv(action.op)) {
      auto& arrivals = channel(worker, action).arrivals;
      if (arrivals.empty()) return false;
      end = std::max(end, arrivals.front());
      arrivals.pop();
    } else if (action.op == Op::kReduceBegin) {
      begin(worker, action);
    } else if (action.op == Op::kReduceWait) {
      const Reduction& reduction = rounds_.waited(worker, action.stage);
      if (reduction.begun < rounds_.members(action.stage)) return false;
      const double done = reduction.last_begin_s + costs_.reduce(action.stage);
      end_reduction(worker, action.stage, done);
      end = std::max(end, done);
    } else if (action.op == Op::kStep) {
      end += costs_.step_s;
    }
    record(worker, action, end);
    return true;
  }

  const Program& program_;
  const Costs& costs_;
  std::vector<double> free_;
  std::map<ChannelEnds, Channel> channels_;
  Rounds<Reduction> rounds_;
  Timeline timeline_;
};

}  // namespace

Timeline simulate(const Program& program, const Costs& costs) {
  check(costs, program.source.stages());
  return Simulator(program, costs).run();
}

}  // namespace chimera
