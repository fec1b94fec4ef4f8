// An action starts when its worker is free and what it needs is there; since workers do their rows
// in order and channels are queues, the times follow from the order alone and no clock or event
// queue is needed: each action's times are final when it is first possible (walk.h).
//
//   compute      start = free;  end = start + cost
//   send         takes the worker no time; the message leaves when the channel is free, keeps it
//                for bytes / bandwidth, and arrives a latency later
//   receive      end = max(free, arrival)
//   reduce begin takes no time
//   reduce wait  end = max(free, end of the sum)
//   stash, free  take no time
//
// All-reduces share the links of their members, so on each worker they go one after the other, in
// the order in which they were ready (begun by all members): two of them in one idle region of a
// worker take as long as both together, which the paper leaves open. A sum runs from
// max(ready, end of the sums before it on any member) for its cost. Which sum is next is known
// when no worker can go on: whatever is begun later, is begun after one of the waiting sums ended,
// and so is ready later than the first of them. So the walk goes as far as it can, the sum that was
// ready first gets its times, and the walk goes on. Where a worker takes part in several at once
// (Costs::reduces_at_once), each sum takes the place that is free first on every member. Messages
// and sums do not slow each other.
//
// Tests: simulate_test.cc.
#include "chimera/simulate/simulate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <queue>
#include <tuple>
#include <utility>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/base/turns.h"
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

void check_link(const Link& link) {
  check_times({link.latency_s}, 1, "latencies", false);
  if (link.bandwidth > 0) return;
  throw Error(ErrorCode::kUsage,
              cat("costs: bandwidth is ", link.bandwidth, "; expected bytes per second above 0"));
}

void check(const Costs& costs, int stages) {
  check_times(costs.forward_s, stages, "forward times", false);
  check_times(costs.backward_s, stages, "backward times", false);
  check_times(costs.recompute_s, stages, "recompute times", true);
  check_times(costs.reduce_s, stages, "all-reduce times", true);
  check_times(costs.stage_step_s, stages, "step times of stages", true);
  check_times(costs.backward_input_s, stages, "input-gradient times", true);
  check_times(costs.boundary_bytes, stages - 1, "boundary sizes", true);
  check_times({costs.step_s}, 1, "step times", false);
  if (costs.reduces_at_once < 1) {
    throw Error(ErrorCode::kUsage, cat("costs: a worker takes part in ", costs.reduces_at_once,
                                       " all-reduces at once; expected at least 1"));
  }
  check_link(costs.link);
  for (const auto& [ends, link] : costs.links) check_link(link);
  for (std::size_t stage = 0; stage < costs.backward_input_s.size(); ++stage) {
    if (costs.backward_input_s[stage] <= costs.backward_s[stage]) continue;
    throw Error(ErrorCode::kUsage, cat("costs: the input gradient of stage ", stage, " takes ",
                                       costs.backward_input_s[stage], ", but the whole backward ",
                                       costs.backward_s[stage], "; expected a part of it"));
  }
}

constexpr double kUnderWay = std::numeric_limits<double>::infinity();

class Simulator {
 public:
  Simulator(const Program& program, const Costs& costs)
      : program_(program),
        costs_(costs),
        free_(program.rows.size(), 0.0),
        sums_(program.rows.size(), costs.reduces_at_once),
        rounds_(program) {
    timeline_.rows.resize(program.rows.size());
    timeline_.reductions.resize(program.rows.size());
  }

  Timeline run() {
    std::vector<std::size_t> stops;
    do {
      stops = walk(
          program_.rows,
          [this](std::size_t worker, std::size_t position) {
            return attempt(worker, program_.rows[worker][position]);
          },
          std::move(stops));
    } while (time_next_sum());
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
    Turns turns;
    std::queue<double> arrivals;
  };
  struct Reduction {
    int stage = 0;
    int begun = 0;  // members that have
    double ready_s = 0;
    double end_s = kUnderWay;
  };

  [[nodiscard]] ChannelEnds ends_of(std::size_t worker, const Action& action) const {
    return channel_of(program_.source.placement, static_cast<int>(worker), action);
  }

  void send(std::size_t worker, const Action& action) {
    const ChannelEnds ends = ends_of(worker, action);
    const Link& link = costs_.link_of(ends);
    Channel& to = channels_[ends];
    const double busy_s = costs_.message_bytes(action) / link.bandwidth;
    to.arrivals.push(to.turns.end(free_[worker], busy_s) + link.latency_s);
  }

  void record(std::size_t worker, const Action& action, double end) {
    timeline_.rows[worker].push_back({action, free_[worker], end});
    free_[worker] = end;
  }

  void begin(std::size_t worker, const Action& action) {
    Reduction& reduction = rounds_.begin(worker, action.stage);
    reduction.stage = action.stage;
    reduction.ready_s = std::max(reduction.ready_s, free_[worker]);
    if (++reduction.begun == rounds_.members(action.stage)) ready_.push_back(&reduction);
    timeline_.reductions[worker].push_back({action, free_[worker], kUnderWay});
  }

  // Whether there was one.
  bool time_next_sum() {
    const auto next = std::min_element(ready_.begin(), ready_.end(), [](auto* a, auto* b) {
      return std::tie(a->ready_s, a->stage) < std::tie(b->ready_s, b->stage);
    });
    if (next == ready_.end()) return false;
    Reduction& reduction = **next;
    ready_.erase(next);
    reduction.end_s =
        sums_.end(reduction.ready_s, program_.source.placement.holders(reduction.stage),
                  costs_.reduce(reduction.stage));
    return true;
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
      auto& arrivals = channels_[ends_of(worker, action)].arrivals;
      if (arrivals.empty()) return false;
      end = std::max(end, arrivals.front());
      arrivals.pop();
    } else if (action.op == Op::kReduceBegin) {
      begin(worker, action);
    } else if (action.op == Op::kReduceWait) {
      const double done = rounds_.waited(worker, action.stage).end_s;
      if (done == kUnderWay) return false;
      end_reduction(worker, action.stage, done);
      end = std::max(end, done);
    } else if (action.op == Op::kStep) {
      end +=
          costs_.step(action.stage, program_.source.placement.stages_of(static_cast<int>(worker)));
    }
    record(worker, action, end);
    return true;
  }

  const Program& program_;
  const Costs& costs_;
  std::vector<double> free_;
  SharedTurns sums_;  // by worker, those that have times
  std::map<ChannelEnds, Channel> channels_;
  Rounds<Reduction> rounds_;
  std::vector<Reduction*> ready_;  // begun by all members, and without times
  Timeline timeline_;
};

}  // namespace

Timeline simulate(const Program& program, const Costs& costs) {
  check(costs, program.source.stages());
  return Simulator(program, costs).run();
}

}  // namespace chimera
