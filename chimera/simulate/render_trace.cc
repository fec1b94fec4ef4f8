// Trace events as chrome://tracing and Perfetto read them (the "Trace Event Format" of Chromium):
// a track is a process, a worker a thread of it.
//
//   X     an action: name as in the text form, category by what it is
//   s, f  an arrow from a send to its receive; it binds to the action written just before it
//   b, e  an all-reduce, beside the threads, since several may go on at a time
//   C     the bytes of a worker
//   M     names of processes and threads, and their order
//
// Times are microseconds with three digits, cut to whole nanoseconds at both ends, so that
// actions which touch do not overlap by rounding.
//
// tests: render_trace_test.cc
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "chimera/base/text.h"
#include "chimera/schedule/transfers.h"
#include "chimera/simulate/render.h"

namespace chimera {
namespace {

using Event = nlohmann::ordered_json;

double in_ns(double time_s) { return std::round(time_s * 1e9); }
double in_us(double time_s) { return in_ns(time_s) / 1e3; }

std::string_view category(Op op) {
  if (is_compute(op)) return info(op).name;
  if (is_send(op)) return "message";
  if (is_recv(op) || op == Op::kReduceWait) return "wait";
  return op == Op::kReduceBegin ? "reduce" : "update";
}

Event event(std::string_view phase, std::size_t process, std::size_t worker) {
  // Thread 0 has a meaning of its own to some readers.
  return {{"ph", phase}, {"pid", process}, {"tid", worker + 1}};
}

Event metadata(std::string_view name, std::size_t process, std::size_t worker, const Event& args) {
  Event about = event("M", process, worker);
  about["name"] = name;
  about["args"] = args;
  return about;
}

Event complete_event(const Interval& interval, std::size_t process, std::size_t worker) {
  const Action& action = interval.action;
  Event complete = event("X", process, worker);
  complete["name"] = to_string(action);
  complete["cat"] = category(action.op);
  complete["ts"] = in_us(interval.start_s);
  complete["dur"] = (in_ns(interval.end_s) - in_ns(interval.start_s)) / 1e3;
  complete["args"] = {{"stage", action.stage},
                      {"micro", action.micro},
                      {"pipe", action.pipe},
                      {"span", action.span},
                      {"age", action.age}};
  return complete;
}

// Gives the nth send of a channel and its nth receive the same number: channels keep their order.
class Arrows {
 public:
  Arrows(const Placement& placement, std::size_t process)
      : placement_(placement), process_(process) {}

  Event arrow(const Interval& interval, std::size_t worker) {
    const Action& action = interval.action;
    const bool sends = is_send(action.op);
    Event event_here = event(sends ? "s" : "f", process_, worker);
    event_here["name"] = "message";
    event_here["cat"] = "message";
    const ChannelEnds ends = channel_of(placement_, static_cast<int>(worker), action);
    auto& [sent, received] = counts_[ends];
    event_here["id"] =
        cat(process_, ":", ends.from, ">", ends.to, "#", sends ? sent++ : received++);
    event_here["ts"] = in_us(sends ? interval.start_s : interval.end_s);
    if (!sends) event_here["bp"] = "e";
    return event_here;
  }

 private:
  const Placement& placement_;
  std::size_t process_;
  std::map<ChannelEnds, std::pair<int, int>> counts_;
};

void add_names(const Track& track, std::size_t process, Event& events) {
  events.push_back(metadata("process_name", process, 0, {{"name", track.name}}));
  events.push_back(metadata("process_sort_index", process, 0, {{"sort_index", process}}));
  for (std::size_t worker = 0; worker < track.timeline.rows.size(); ++worker) {
    events.push_back(metadata("thread_name", process, worker, {{"name", cat("P", worker)}}));
    events.push_back(metadata("thread_sort_index", process, worker, {{"sort_index", worker}}));
  }
}

void add_actions(const Track& track, std::size_t process, const Placement& placement,
                 Event& events) {
  Arrows arrows(placement, process);
  for (std::size_t worker = 0; worker < track.timeline.rows.size(); ++worker) {
    for (const Interval& interval : track.timeline.rows[worker]) {
      events.push_back(complete_event(interval, process, worker));
      const Op op = interval.action.op;
      if (is_send(op) || is_recv(op)) events.push_back(arrows.arrow(interval, worker));
    }
  }
}

void add_reductions(const Track& track, std::size_t process, Event& events) {
  for (std::size_t worker = 0; worker < track.timeline.reductions.size(); ++worker) {
    const auto& reductions = track.timeline.reductions[worker];
    for (std::size_t i = 0; i < reductions.size(); ++i) {
      Event half = event("b", process, worker);
      half["name"] = cat("P", worker, " all-reduce");
      half["cat"] = "reduce";
      half["id"] = cat(process, ":P", worker, "#", i);
      half["ts"] = in_us(reductions[i].start_s);
      half["args"] = {{"stage", reductions[i].action.stage}};
      events.push_back(half);
      half["ph"] = "e";
      half["ts"] = in_us(reductions[i].end_s);
      events.push_back(half);
    }
  }
}

void add_memory(const Track& track, std::size_t process, Event& events) {
  for (std::size_t worker = 0; worker < track.memory.size(); ++worker) {
    for (const Level& level : track.memory[worker]) {
      Event counter = event("C", process, worker);
      counter["name"] = cat("P", worker, " memory");
      counter["ts"] = in_us(level.time_s);
      counter["args"] = {{"bytes", level.bytes}};
      events.push_back(counter);
    }
  }
}

}  // namespace

std::string draw_trace(std::span<const Track> tracks, const Placement& placement) {
  Event events = Event::array();
  for (std::size_t i = 0; i < tracks.size(); ++i) {
    const std::size_t process = i + 1;
    add_names(tracks[i], process, events);
    add_actions(tracks[i], process, placement, events);
    add_reductions(tracks[i], process, events);
    add_memory(tracks[i], process, events);
  }
  // One event a line, for those who read it with other tools.
  std::string text = R"({"displayTimeUnit": "ms", "traceEvents": [)";
  std::string_view before = "\n";
  for (const Event& each : events) {
    text += before;
    text += each.dump(-1, ' ', false, Event::error_handler_t::replace);
    before = ",\n";
  }
  return text += "\n]}\n";
}

}  // namespace chimera
