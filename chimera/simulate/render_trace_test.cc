#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "chimera/base/text.h"
#include "chimera/generate/generate.h"
#include "chimera/schedule/lower.h"
#include "chimera/simulate/render.h"
#include "chimera/simulate/simulate.h"

namespace chimera {
namespace {

using Events = std::vector<nlohmann::json>;

struct Traced {
  Schedule schedule;
  Timeline timeline;
};

Traced traced(std::string_view name, int stages, int micros, double forward_s = 0.001) {
  const Schedule schedule = generate(name, {.stages = stages, .micros = micros, .pairs = {}});
  Costs costs = Costs::uniform(stages, forward_s, 2 * forward_s);
  costs.link.latency_s = forward_s / 7;
  return {schedule, simulate(lower(schedule), costs)};
}

Events trace(const std::vector<Track>& tracks, const Placement& placement) {
  const auto all = nlohmann::json::parse(draw_trace(tracks, placement));
  EXPECT_EQ(all["displayTimeUnit"], "ms");
  return all["traceEvents"].get<Events>();
}

Events of_phase(const Events& events, const std::string& phase) {
  Events found;
  for (const auto& event : events) {
    if (event["ph"] == phase) found.push_back(event);
  }
  return found;
}

TEST(DrawTrace, NamesProcessesAndThreadsAndOrdersThem) {
  const Traced drawn = traced("gpipe", 3, 2);
  const Events named = of_phase(trace({{"predicted", drawn.timeline}, {"measured", drawn.timeline}},
                                      drawn.schedule.placement),
                                "M");
  std::map<std::string, std::vector<std::string>> names;
  for (const auto& event : named) {
    names[event["name"]].push_back(
        cat(event["pid"], " ", event["tid"], " ", event["args"].begin().value()));
  }
  using Words = std::vector<std::string>;
  EXPECT_EQ(names["process_name"], (Words{"1 1 \"predicted\"", "2 1 \"measured\""}));
  EXPECT_EQ(names["process_sort_index"], (Words{"1 1 1", "2 1 2"}));
  EXPECT_EQ(names["thread_name"], (Words{"1 1 \"P0\"", "1 2 \"P1\"", "1 3 \"P2\"", "2 1 \"P0\"",
                                         "2 2 \"P1\"", "2 3 \"P2\""}));
  EXPECT_EQ(names["thread_sort_index"].size(), 6U);
}

TEST(DrawTrace, HasEachActionWithItsTimesInMicroseconds) {
  const Traced drawn = traced("chimera", 4, 8);
  const Events complete =
      of_phase(trace({{"predicted", drawn.timeline}}, drawn.schedule.placement), "X");
  std::size_t at = 0;
  for (std::size_t worker = 0; worker < 4; ++worker) {
    for (const Interval& interval : drawn.timeline.rows[worker]) {
      ASSERT_LT(at, complete.size());
      const auto& event = complete[at++];
      EXPECT_EQ(event["name"], to_string(interval.action));
      EXPECT_EQ(event["tid"], worker + 1);
      EXPECT_NEAR(event["ts"].get<double>(), interval.start_s * 1e6, 1e-3);
      EXPECT_NEAR(event["dur"].get<double>(), (interval.end_s - interval.start_s) * 1e6, 2e-3);
      EXPECT_EQ(event["args"]["stage"], interval.action.stage);
      EXPECT_EQ(event["args"]["micro"], interval.action.micro);
      EXPECT_EQ(event["args"]["pipe"], interval.action.pipe);
      EXPECT_EQ(event["args"]["span"], interval.action.span);
      EXPECT_EQ(event["args"]["age"], interval.action.age);
    }
  }
  EXPECT_EQ(at, complete.size());
}

TEST(DrawTrace, SaysOfWhatKindAnActionIs) {
  Timeline timeline;
  const std::vector<std::pair<Op, std::string>> kinds = {{Op::kForward, "forward"},
                                                         {Op::kBackward, "backward"},
                                                         {Op::kBackwardInput, "backward-input"},
                                                         {Op::kBackwardWeight, "backward-weight"},
                                                         {Op::kRecompute, "recompute"},
                                                         {Op::kReduceBegin, "reduce"},
                                                         {Op::kReduceWait, "wait"},
                                                         {Op::kStashWeights, "update"},
                                                         {Op::kFreeWeights, "update"},
                                                         {Op::kStep, "update"}};
  timeline.rows.resize(1);
  for (const auto& [op, word] : kinds) timeline.rows[0].push_back({{.op = op}, 0, 1});
  const Events events = of_phase(trace({{"predicted", timeline}}, Placement::linear(1)), "X");
  for (std::size_t i = 0; i < kinds.size(); ++i) EXPECT_EQ(events[i]["cat"], kinds[i].second);
}

// Else readers take one for a part of the other.
TEST(DrawTrace, ActionsOfAWorkerDoNotOverlapByRounding) {
  const Traced drawn = traced("chimera", 8, 16, 0.0012345678901);
  std::map<std::int64_t, std::int64_t> ends;  // of threads, in nanoseconds
  for (const auto& event :
       of_phase(trace({{"predicted", drawn.timeline}}, drawn.schedule.placement), "X")) {
    const auto begin = std::llround(event["ts"].get<double>() * 1e3);
    EXPECT_GE(begin, ends[event["tid"]]);
    ends[event["tid"]] = begin + std::llround(event["dur"].get<double>() * 1e3);
  }
}

TEST(DrawTrace, LeadsFromEachSendToItsReceive) {
  const Traced drawn = traced("chimera", 4, 6);
  const Events events = trace({{"predicted", drawn.timeline}, {"measured", drawn.timeline}},
                              drawn.schedule.placement);
  std::map<std::string, nlohmann::json> sends, receives;  // the action of each, by the arrow's id
  for (std::size_t i = 0; i < events.size(); ++i) {
    const std::string phase = events[i]["ph"];
    if (phase != "s" && phase != "f") continue;
    const auto& action = events[i - 1];  // the one it is bound to
    ASSERT_EQ(action["ph"], "X");
    EXPECT_EQ(action["cat"], phase == "s" ? "message" : "wait");
    EXPECT_EQ(action["tid"], events[i]["tid"]);
    EXPECT_GE(events[i]["ts"], action["ts"]);
    EXPECT_TRUE((phase == "s" ? sends : receives).emplace(events[i]["id"], action).second);
  }
  EXPECT_EQ(sends.size(), 2 * 2 * 3 * 6U);  // tracks x ways x boundaries x micro-batches
  ASSERT_EQ(receives.size(), sends.size());
  for (const auto& [id, send] : sends) {
    const auto& receive = receives.at(id);
    EXPECT_EQ(send["args"]["micro"], receive["args"]["micro"]);
    EXPECT_EQ(send["args"]["pipe"], receive["args"]["pipe"]);
    EXPECT_EQ(send["pid"], receive["pid"]);
    EXPECT_LE(send["ts"].get<double>(), receive["ts"].get<double>() + receive["dur"].get<double>());
  }
}

TEST(DrawTrace, ShowsReductionsBesideTheThreads) {
  Traced drawn = traced("gpipe", 2, 2);
  const Action reduce{.op = Op::kReduceBegin, .stage = 1};
  drawn.timeline.reductions = {{}, {{reduce, 0.001, 0.003}, {reduce, 0.002, 0.004}}};
  const Events events = trace({{"predicted", drawn.timeline}}, drawn.schedule.placement);
  const Events begins = of_phase(events, "b"), ends = of_phase(events, "e");
  ASSERT_EQ(begins.size(), 2U);
  ASSERT_EQ(ends.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    for (const char* same : {"id", "cat", "name", "pid"}) EXPECT_EQ(begins[i][same], ends[i][same]);
  }
  EXPECT_NE(begins[0]["id"], begins[1]["id"]);
  EXPECT_EQ(begins[0]["args"]["stage"], 1);
  EXPECT_EQ(begins[1]["ts"], 2000);
  EXPECT_EQ(ends[1]["ts"], 4000);
}

TEST(DrawTrace, CountsMemory) {
  const Traced drawn = traced("gpipe", 2, 2);
  const Track track{"measured", drawn.timeline, {{{0, 100}, {0.5, 300}}, {{0, 7}}}};
  const Events counters = of_phase(trace({track}, drawn.schedule.placement), "C");
  ASSERT_EQ(counters.size(), 3U);
  EXPECT_EQ(counters[1]["name"], "P0 memory");
  EXPECT_EQ(counters[1]["ts"], 500000);
  EXPECT_EQ(counters[1]["args"]["bytes"], 300);
  EXPECT_EQ(counters[2]["name"], "P1 memory");
}

TEST(DrawTrace, IsJsonWhateverTheNames) {
  const Traced drawn = traced("gpipe", 1, 1);
  const Events events = trace({{"\"\\\n\xff", drawn.timeline}}, drawn.schedule.placement);
  EXPECT_EQ(events[0]["args"]["name"], "\"\\\n\xef\xbf\xbd");
  EXPECT_TRUE(trace({}, Placement()).empty());
}

}  // namespace
}  // namespace chimera
