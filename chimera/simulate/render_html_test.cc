#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "chimera/generate/generate.h"
#include "chimera/schedule/lower.h"
#include "chimera/simulate/render.h"
#include "chimera/simulate/simulate.h"

namespace chimera {
namespace {

constexpr std::size_t kNumbers = 8;  // of an interval: op, stage, micro, span, pipe, age, times

struct Paged {
  Schedule schedule;
  Track track;
};

Paged paged(std::string_view name, int stages, int micros) {
  const Schedule schedule = generate(name, {.stages = stages, .micros = micros, .pairs = {}});
  Costs costs = Costs::uniform(stages, 1, 2);
  costs.link.latency_s = 0.25;
  return {schedule, {"predicted", simulate(lower(schedule), costs)}};
}

std::string page(const std::vector<Track>& tracks, const Placement& placement,
                 std::string_view title = "title") {
  return draw_html(tracks, placement, title);
}

// What the page's script will see.
nlohmann::json data_of(const std::string& page) {
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const std::size_t begin = page.find(open) + open.size();
  return nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

std::size_t count(const std::string& text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

TEST(DrawHtml, NeedsNothingFromElsewhere) {
  const Paged drawn = paged("chimera", 4, 8);
  const std::string text = page({drawn.track}, drawn.schedule.placement);
  for (const char* part : {"http:", "https:", "src=", "<link", "@import", "url(", "fetch("}) {
    EXPECT_EQ(text.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(text.rfind("<!doctype html>", 0), 0U);
  EXPECT_EQ(text.substr(text.size() - 8), "</html>\n");
  EXPECT_EQ(text.find("@data@"), std::string::npos);
}

TEST(DrawHtml, HoldsEachActionWithItsTimes) {
  const Paged drawn = paged("chimera", 4, 8);
  const auto data = data_of(page({drawn.track}, drawn.schedule.placement));
  const auto& rows = data["tracks"][0]["rows"];
  ASSERT_EQ(rows.size(), 4U);
  for (std::size_t worker = 0; worker < 4; ++worker) {
    std::size_t at = 0;
    for (const Interval& interval : drawn.track.timeline.rows[worker]) {
      const Action& action = interval.action;
      if (!is_compute(action.op) && interval.start_s == interval.end_s) continue;
      const nlohmann::json expected = {int(action.op), action.stage, action.micro,
                                       action.span,    action.pipe,  action.age};
      for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(rows[worker][at + i], expected[i]);
      EXPECT_EQ(rows[worker][at + 6], interval.start_s);
      EXPECT_EQ(rows[worker][at + 7], interval.end_s);
      at += kNumbers;
    }
    EXPECT_EQ(rows[worker].size(), at);
  }
  EXPECT_EQ(data["ops"][0], "F");
  EXPECT_EQ(data["ops"].size(), kOps.size());
  EXPECT_EQ(data["up"], nlohmann::json({false, true}));
  EXPECT_EQ(data["tracks"][0]["makespan"], makespan(drawn.track.timeline));
  EXPECT_EQ(data["tracks"][0]["bubble"], bubble_ratio(drawn.track.timeline));
}

TEST(DrawHtml, KeepsTracksInOrderWithMemoryAndReductions) {
  Paged drawn = paged("gpipe", 2, 2);
  Track measured = drawn.track;
  measured.name = "measured";
  measured.memory = {{{0, 10}, {1.5, 20}}, {}};
  measured.timeline.reductions = {{{{.op = Op::kReduceBegin, .stage = 1}, 2, 3}}, {}};
  const auto tracks = data_of(page({drawn.track, measured}, drawn.schedule.placement))["tracks"];
  EXPECT_EQ(tracks[0]["name"], "predicted");
  EXPECT_EQ(tracks[0]["memory"], nlohmann::json::array());
  EXPECT_EQ(tracks[0]["reductions"], nlohmann::json::parse("[[],[]]"));
  EXPECT_EQ(tracks[1]["name"], "measured");
  EXPECT_EQ(tracks[1]["memory"].dump(), "[[[0.0,10.0],[1.5,20.0]],[]]");
  EXPECT_EQ(tracks[1]["reductions"].dump(), "[[9,1,0,1,0,0,2.0,3.0],[]]");
}

TEST(DrawHtml, LetsNoWordBecomeMarkup) {
  Paged drawn = paged("gpipe", 2, 2);
  const std::string plain = page({drawn.track}, drawn.schedule.placement);
  drawn.track.name = "</script><!--<script>";
  const std::string words = "</script><script>alert('1')</script> \"quoted\" \\ &amp; \n";
  const std::string text = page({drawn.track}, drawn.schedule.placement, words);
  EXPECT_EQ(count(text, "<"), count(plain, "<"));
  EXPECT_EQ(data_of(text)["title"], words);
  EXPECT_EQ(data_of(text)["tracks"][0]["name"], drawn.track.name);
}

TEST(DrawHtml, ReplacesWhatIsNoText) {
  const Paged drawn = paged("gpipe", 2, 2);
  const std::string text = page({drawn.track}, drawn.schedule.placement, "a\xff\xc3(b");
  EXPECT_EQ(data_of(text)["title"], "a\xef\xbf\xbd\xef\xbf\xbd(b");
}

TEST(DrawHtml, DrawsWhatIsEmpty) {
  EXPECT_EQ(data_of(page({}, Placement()))["tracks"], nlohmann::json::array());
  Track track{"predicted", {}};
  track.timeline.rows.resize(3);
  const auto data = data_of(page({track}, Placement::linear(3)));
  EXPECT_EQ(data["tracks"][0]["rows"].dump(), "[[],[],[]]");
  EXPECT_EQ(data["tracks"][0]["makespan"], 0);
}

TEST(DrawHtml, StaysSmallForManyActions) {
  const Paged drawn = paged("chimera", 64, 256);  // 32768 computations
  const std::string text = page({drawn.track}, drawn.schedule.placement);
  EXPECT_LT(text.size(), 8U << 20);
}

}  // namespace
}  // namespace chimera
