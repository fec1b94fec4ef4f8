#include "chimera/simulate/render.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <regex>
#include <string>
#include <vector>

#include "chimera/base/text.h"
#include "chimera/generate/generate.h"
#include "chimera/schedule/lower.h"
#include "chimera/simulate/drawing.h"
#include "chimera/simulate/simulate.h"

namespace chimera {
namespace {

struct Drawn {
  Schedule schedule;
  Timeline timeline;
};

Drawn simulated(std::string_view name, int stages, int micros, double forward, double backward,
                std::optional<int> pairs = {}) {
  const Schedule schedule = generate(name, {.stages = stages, .micros = micros, .pairs = pairs});
  return {schedule, simulate(lower(schedule), Costs::uniform(stages, forward, backward))};
}

// Times as a machine would measure them: on no grid.
Drawn measured(std::string_view name, int stages, int micros) {
  Drawn drawn = simulated(name, stages, micros, 1, 2);
  for (auto& row : drawn.timeline.rows) {
    for (Interval& interval : row) {
      const double length = interval.end_s - interval.start_s;
      interval.start_s = interval.start_s * 0.0117 + 0.0004;
      interval.end_s = interval.start_s + length * 0.0117 * (0.9 + 0.09 * std::sin(interval.end_s));
    }
  }
  return drawn;
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  for (const std::string_view line : split(text, '\n')) all.emplace_back(line);
  if (!all.empty() && all.back().empty()) all.pop_back();
  return all;
}

std::string draw(const Drawn& drawn, const TextStyle& style = {}) {
  return draw_text(drawn.timeline, drawn.schedule.placement, style);
}

// The lines of the workers, without their names.
std::vector<std::string> rows(const Drawn& drawn, const TextStyle& style = {}) {
  std::vector<std::string> found;
  const auto all = lines(draw(drawn, style));
  const std::size_t margin = cat("P", drawn.timeline.rows.size() - 1).size() + 1;
  for (std::size_t worker = 0; worker < drawn.timeline.rows.size(); ++worker) {
    found.push_back(all.at(worker + 1).substr(margin));
  }
  return found;
}

std::string without_colour(const std::string& text) {
  return std::regex_replace(text, std::regex("\x1b\\[[0-9;]*m"), "");
}

std::vector<Drawn> examples() {
  std::vector<Drawn> all;
  for (const std::string_view name : {"gpipe", "1f1b", "chimera"}) {
    for (const int stages : {2, 8, 32}) {
      for (const int micros : {1, stages, 2 * stages + 1}) {
        all.push_back(simulated(name, stages, micros, 1, 1));
        all.push_back(simulated(name, stages, micros, 1e-3, 2e-3));
        all.push_back(simulated(name, stages, micros, 0.7, 1.9));
        all.push_back(measured(name, stages, micros));
      }
    }
  }
  all.push_back(simulated("chimera", 32, 64, 1, 2, 16));
  return all;
}

// ---- text --------------------------------------------------------------------------------------

TEST(DrawText, DrawsChimeraAsThePaperDoes) {
  EXPECT_EQ(
      draw(simulated("chimera", 4, 4, 1, 2)),
      "   0     2     4     6     8     10    12    14\n"
      "P0 F0 F1 .. f2 b2=== f3 b3=== .. B0=== ..... B1===\n"
      "P1 .. F0 f2 F1 f3 .. b2=== B0=== b3=== B1=== ......\n"
      "P2 .. f2 F0 f3 F1 .. B0=== b2=== B1=== b3=== ......\n"
      "P3 f2 f3 .. F0 B0=== F1 B1=== .. b2=== ..... b3===\n"
      "   F forward down   f forward up   B backward down   b backward up   . idle   one column "
      "is 0.333333\n");
}

TEST(DrawText, SaysNothingOfDirectionsWhereThereIsOne) {
  const std::string text = draw(simulated("gpipe", 2, 1, 1, 2));
  EXPECT_NE(text.find("F forward   B backward   . idle"), std::string::npos) << text;
}

TEST(DrawText, PutsEachActionIntoItsSlot) {
  for (const std::string_view name : {"gpipe", "1f1b", "chimera"}) {
    for (const int stages : {2, 4, 6}) {
      for (const int micros : {1, 2, 3, stages, 9}) {
        const Drawn drawn = simulated(name, stages, micros, 1, 1);
        const auto text = rows(drawn, {.columns = 400});
        for (std::size_t worker = 0; worker < text.size(); ++worker) {
          for (const Interval& interval : drawn.timeline.rows[worker]) {
            const Action& action = interval.action;
            if (!is_compute(action.op)) continue;
            std::string cell = cat(info(action.op).letter, action.micro);
            if (drawn.schedule.placement.is_up(action.pipe)) cell[0] += 'a' - 'A';
            const auto column = static_cast<std::size_t>(std::lround(interval.start_s * 3));
            EXPECT_EQ(text[worker].substr(column, 2), cell) << name << draw(drawn);
          }
        }
      }
    }
  }
}

TEST(DrawText, LeavesIdleTimeDotted) {
  for (const std::string& row : rows(simulated("1f1b", 4, 4, 1, 1), {.columns = 400})) {
    int idle = 0;
    for (std::size_t column = 0; column < row.size(); column += 3) idle += row[column] == '.';
    EXPECT_EQ(idle, 6) << row;  // 2 (D - 1)
  }
}

TEST(DrawText, UsesPartsOfAnActionWhereTimesNeedThem) {
  const auto text = rows(simulated("gpipe", 2, 1, 1, 1.5), {.columns = 60});
  EXPECT_EQ(text[0], "F0- ......... B0===");
  EXPECT_EQ(text[1], "... F0- B0=== ......");
}

TEST(DrawText, IsNeverWiderThanAsked) {
  for (const Drawn& drawn : examples()) {
    for (const int columns : {40, 97, 300}) {
      for (const double span_s : {0.0, 1000.0}) {
        for (const std::string& line : lines(draw(drawn, {.columns = columns, .span_s = span_s}))) {
          ASSERT_LE(line.size(), static_cast<std::size_t>(columns)) << line;
        }
      }
    }
  }
}

TEST(DrawText, ColourAddsEscapeCodesAlone) {
  for (const Drawn& drawn : examples()) {
    const std::string plain = draw(drawn), coloured = draw(drawn, {.colour = true});
    EXPECT_EQ(plain.find('\x1b'), std::string::npos);
    EXPECT_NE(coloured, plain);
    EXPECT_EQ(without_colour(coloured), plain);
  }
}

TEST(DrawText, TellsKindsApartByColourToo) {
  const std::string text = draw(simulated("chimera", 2, 2, 1, 2), {.colour = true});
  std::vector<std::string> styles;
  const std::regex cell("(\x1b\\[[0-9;]*m)[FfBb]");
  for (std::sregex_iterator it(text.begin(), text.end(), cell), end; it != end; ++it) {
    styles.push_back((*it)[1]);
  }
  std::sort(styles.begin(), styles.end());
  EXPECT_EQ(std::unique(styles.begin(), styles.end()) - styles.begin(), 4);
}

TEST(DrawText, DropsNumbersThatDoNotAllFitAndNeverCutsOne) {
  for (const std::string& row : rows(simulated("1f1b", 4, 24, 1, 1), {.columns = 70})) {
    EXPECT_EQ(row.find_first_of("0123456789"), std::string::npos) << row;
  }
}

TEST(DrawText, SaysHowWideItMustBeToShowEachAction) {
  const Drawn drawn = simulated("chimera", 32, 64, 1, 2);
  std::smatch found;
  const std::string text = draw(drawn, {.columns = 100});
  ASSERT_TRUE(std::regex_search(text, found, std::regex("all actions show at (\\d+) columns")));
  const std::string wide = draw(drawn, {.columns = std::stoi(found[1])});
  EXPECT_EQ(wide.find("all actions show"), std::string::npos);
  EXPECT_NE(wide.find("one column is 1\n"), std::string::npos);
}

TEST(DrawText, ShowsWhatTakesMostOfAColumn) {
  Timeline timeline;
  timeline.rows = {{{{.op = Op::kForward}, 0, 90}, {{.op = Op::kBackward}, 90.1, 100}}};
  const std::string text =
      draw_text(timeline, Placement::linear(1), {.columns = 43});  // 2.5 each column
  EXPECT_EQ(lines(text)[1], "P0 F0" + std::string(33, '-') + " B0=");
}

TEST(DrawText, SharesAScaleOnRequest) {
  const Drawn drawn = simulated("gpipe", 2, 4, 1, 1);  // 10 long
  const auto row = rows(drawn, {.columns = 83, .span_s = 20})[0];
  EXPECT_NEAR(static_cast<double>(row.size()), 40, 1) << row;
}

TEST(DrawText, DrawsWhatIsEmpty) {
  Timeline timeline;
  timeline.rows.resize(2);
  EXPECT_EQ(draw_text(timeline, Placement::linear(2)), "   \nP0 \nP1 \n   . idle\n");
}

// ---- SVG ---------------------------------------------------------------------------------------

std::string svg(const Drawn& drawn, std::string_view title = "title") {
  return draw_svg(drawn.timeline, drawn.schedule.placement, title);
}

std::vector<std::smatch> matches(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  return {std::sregex_iterator(text.begin(), text.end(), regex), std::sregex_iterator()};
}

// Every element is closed by its own name, in order.
void expect_well_formed(const std::string& text) {
  std::vector<std::string> open;
  for (const std::smatch& tag : matches(text, "<(/?)([a-zA-Z]+)[^<>]*?(/?)>")) {
    if (tag[1].length() > 0) {
      ASSERT_FALSE(open.empty());
      ASSERT_EQ(open.back(), tag[2]);
      open.pop_back();
    } else if (tag[3].length() == 0) {
      open.push_back(tag[2]);
    }
  }
  EXPECT_TRUE(open.empty());
  EXPECT_EQ(text.find("nan"), std::string::npos);
  EXPECT_EQ(text.find("inf"), std::string::npos);
}

TEST(DrawSvg, IsWellFormed) {
  for (const auto& drawn : {simulated("chimera", 4, 5, 1, 2), measured("1f1b", 8, 3)}) {
    expect_well_formed(svg(drawn));
  }
  Timeline empty;
  empty.rows.resize(3);
  expect_well_formed(draw_svg(empty, Placement::linear(3), ""));
}

TEST(DrawSvg, EscapesTheTitle) {
  const std::string text = svg(simulated("gpipe", 2, 1, 1, 2), "<a href='x'> & \"b\"\x01");
  expect_well_formed(text);
  EXPECT_NE(text.find("&lt;a href=&#39;x&#39;&gt; &amp; &quot;b&quot; </title>"),
            std::string::npos);
}

struct Box {
  double x, y, width;
  bool hatched;
};

std::vector<Box> boxes(const std::string& text) {
  std::vector<Box> found;
  const std::string rect = "<rect x=\"([^\"]*)\" y=\"([^\"]*)\" width=\"([^\"]*)\"";
  for (const std::smatch& match :
       matches(text,
               "<g><title>[^<]*</title>" + rect + "[^>]*class=\"([^\"]*)\"/>(<rect[^>]*hatch)?")) {
    found.push_back(
        {std::stod(match[1]), std::stod(match[2]), std::stod(match[3]), match[5].length() > 0});
  }
  return found;
}

TEST(DrawSvg, HasABoxForEachActionAtItsTimeHatchedWhereItGoesUp) {
  const Drawn drawn = measured("chimera", 8, 11);
  const std::vector<Box> found = boxes(svg(drawn));
  std::vector<Interval> expected;
  for (const auto& row : drawn.timeline.rows) {
    std::copy_if(row.begin(), row.end(), std::back_inserter(expected),
                 [](const Interval& interval) { return is_compute(interval.action.op); });
  }
  ASSERT_EQ(found.size(), expected.size());
  const double per_s = found[0].width / (expected[0].end_s - expected[0].start_s);
  const double left = found[0].x - expected[0].start_s * per_s;
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i].x, left + expected[i].start_s * per_s, 0.6);
    EXPECT_NEAR(found[i].width, (expected[i].end_s - expected[i].start_s) * per_s, 0.1);
    EXPECT_EQ(found[i].hatched, drawn.schedule.placement.is_up(expected[i].action.pipe));
  }
}

TEST(DrawSvg, BoxesOfARowDoNotOverlapAndStayOnThePage) {
  for (const Drawn& drawn : examples()) {
    if (drawn.schedule.stages() > 8) continue;  // the larger ones only cost time
    const std::string text = svg(drawn);
    const double page = std::stod(matches(text, "<svg[^>]* width=\"([^\"]*)\"")[0][1]);
    EXPECT_LT(page, 2600);
    const std::vector<Box> found = boxes(text);
    for (std::size_t i = 0; i + 1 < found.size(); ++i) {
      EXPECT_LE(found[i].x + found[i].width, page);
      if (found[i].y != found[i + 1].y) continue;
      EXPECT_LE(found[i].x + found[i].width, found[i + 1].x + 0.02);
    }
  }
}

TEST(DrawSvg, NamesEachActionInItsTooltip) {
  EXPECT_NE(svg(simulated("chimera", 4, 4, 1, 2))
                .find("<title>backward of micro-batch 2, stage 3, up pipe 1, worker P0: 4 to 6"),
            std::string::npos);
}

// ---- numbers -----------------------------------------------------------------------------------

TEST(RoundStep, IsOneTwoOrFiveTimesAPowerOfTen) {
  EXPECT_DOUBLE_EQ(round_step(1), 1);
  EXPECT_DOUBLE_EQ(round_step(1.1), 2);
  EXPECT_DOUBLE_EQ(round_step(3), 5);
  EXPECT_DOUBLE_EQ(round_step(7), 10);
  EXPECT_DOUBLE_EQ(round_step(0.00021), 0.0005);
  EXPECT_DOUBLE_EQ(round_step(2000), 2000);
}

}  // namespace
}  // namespace chimera
