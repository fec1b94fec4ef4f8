// The schedules drawn in the paper (Li and Hoefler, arXiv 2107.06925, Figures 6, 7 and 8), and the
// closed forms that the authors' code and PipeFisher's have for f = 1.
#include <gtest/gtest.h>

#include <map>

#include "chimera/generate/testing.h"

namespace chimera {
namespace {

// An order read off a figure action by action: F or B and the micro-batch.
struct Drawn {
  const char* figure;
  Spec spec;
  double backward;  // of a forward's time
  int slots;
  std::vector<const char*> rows;
};

const std::vector<Drawn>& drawn() {
  static const std::vector<Drawn> figures = {
      {"Figure 6",
       {.stages = 6, .micros = 6},
       1,
       16,
       {"F0 F1 F2 F3 B3 F4 B4 F5 B5 B0 B1 B2", "F0 F1 F3 F2 F4 B3 F5 B4 B0 B5 B1 B2",
        "F0 F3 F1 F4 F2 F5 B3 B0 B4 B1 B5 B2", "F3 F0 F4 F1 F5 F2 B0 B3 B1 B4 B2 B5",
        "F3 F4 F0 F5 F1 B0 F2 B1 B3 B2 B4 B5", "F3 F4 F5 F0 B0 F1 B1 F2 B2 B3 B4 B5"}},
      {"Figure 7 (a)",
       {.stages = 4, .micros = 4},
       2,
       16,
       {"F0 F1 F2 B2 F3 B3 B0 B1", "F0 F2 F1 F3 B2 B0 B3 B1", "F2 F0 F3 F1 B0 B2 B1 B3",
        "F2 F3 F0 B0 F1 B1 B2 B3"}},
      {"Figure 7 (b)",
       {.stages = 4, .micros = 8},
       2,
       30,
       {"F0 F1 F2 B2 F3 B3 B0 F4 B1 F5 F6 B6 F7 B7 B4 B5",
        "F0 F2 F1 F3 B2 B0 B3 B1 F4 F6 F5 F7 B6 B4 B7 B5",
        "F2 F0 F3 F1 B0 B2 B1 B3 F6 F4 F7 F5 B4 B6 B5 B7",
        "F2 F3 F0 B0 F1 B1 B2 F6 B3 F7 F4 B4 F5 B5 B6 B7"}},
      {"Figure 7 (c)",
       {.stages = 4, .micros = 8, .method = Method::kDoubling, .fused = true},
       2,
       28,
       {"F0 F1 F4 F5 F2 F3 B2 F6 F7 B3 B0 B6 B1 B7 B4 B5",
        "F0 F1 F2 F3 F4 F5 F6 F7 B2 B0 B3 B1 B6 B4 B7 B5",
        "F2 F3 F0 F1 F6 F7 F4 F5 B0 B2 B1 B3 B4 B6 B5 B7",
        "F2 F3 F6 F7 F0 F1 B0 F4 F5 B1 B2 B4 B3 B5 B6 B7"}},
      {"Figure 7 (d)",
       {.stages = 4, .micros = 8, .method = Method::kDoubling},
       2,
       27,
       {"F0 F1 F4 F5 F2 F3 B2 F6 F7 B3 B0 B6 B1 B7 B4 B5",
        "F0 F1 F2 F3 F4 F5 F6 F7 B2 B0 B3 B1 B6 B4 B7 B5",
        "F2 F3 F0 F1 F6 F7 F4 F5 B0 B2 B1 B3 B4 B6 B5 B7",
        "F2 F3 F6 F7 F0 F1 B0 F4 F5 B1 B2 B4 B3 B5 B6 B7"}},
      {"Figure 8",
       {.stages = 8, .micros = 8, .pairs = 2},
       1,
       18,
       {"F0 F1 F6 F2 F7 F3 F4 B4 F5 B5 B2 B6 B3 B7 B0 B1",
        "F0 F6 F1 F7 F2 F4 F3 F5 B4 B2 B5 B3 B6 B0 B7 B1",
        "F6 F0 F7 F1 F4 F2 F5 F3 B2 B4 B3 B5 B0 B6 B1 B7",
        "F6 F7 F0 F4 F1 F5 F2 B2 F3 B3 B4 B0 B5 B1 B6 B7",
        "F2 F3 F4 F0 F5 F1 F6 B6 F7 B7 B0 B4 B1 B5 B2 B3",
        "F2 F4 F3 F5 F0 F6 F1 F7 B6 B0 B7 B1 B4 B2 B5 B3",
        "F4 F2 F5 F3 F6 F0 F7 F1 B0 B6 B1 B7 B2 B4 B3 B5",
        "F4 F5 F2 F6 F3 F7 F0 B0 F1 B1 B6 B2 B7 B3 B4 B5"}},
  };
  return figures;
}

// Gives the figure's micro-batches our numbers: the first time that one is seen, it takes ours of
// the same place; from then on it must be that one, in all rows.
class Renumbering {
 public:
  int operator()(int drawn, int ours) {
    const auto [found, is_new] = ours_.try_emplace(drawn, ours);
    if (is_new && !drawn_.try_emplace(ours, drawn).second) return -1;  // ours has another already
    return found->second;
  }

 private:
  std::map<int, int> ours_, drawn_;
};

// "F0 F1 B0", with the action of two micro-batches as two.
std::vector<std::string> words_of(const Row& row) {
  std::vector<std::string> words;
  for (const Action& action : row) {
    for (int micro = action.micro; micro < action.micro + action.span; ++micro) {
      words.push_back(cat(info(action.op).letter, micro));
    }
  }
  return words;
}

void expect_rows(const Rows& rows, const Drawn& figure) {
  ASSERT_EQ(rows.size(), figure.rows.size());
  Renumbering renumber;
  for (std::size_t worker = 0; worker < rows.size(); ++worker) {
    const std::vector<std::string> ours = words_of(rows[worker]);
    std::vector<std::string> renumbered;
    for (const std::string_view word : split(figure.rows[worker], ' ')) {
      const std::size_t place = renumbered.size();
      ASSERT_LT(place, ours.size());
      const int micro = std::stoi(std::string(word.substr(1)));
      renumbered.push_back(cat(word[0], renumber(micro, std::stoi(ours[place].substr(1)))));
    }
    EXPECT_EQ(ours, renumbered) << figure.figure << ", P" << worker;
  }
}

TEST(PaperFigures, ChimeraHasEveryActionWhereItIsDrawn) {
  for (const Drawn& figure : drawn()) {
    const Schedule schedule = generate("chimera", figure.spec);
    expect_rows(schedule.rows, figure);
    EXPECT_DOUBLE_EQ(length(schedule, 1, figure.backward), figure.slots) << figure.figure;
  }
}

// In halving the figure's micro-batches are halves: a forward has two of them.
TEST(PaperFigures, HalvingHasTheOrderOfFigure7C) {
  const Schedule schedule =
      generate("chimera", {.stages = 4, .micros = 8, .method = Method::kHalving});
  for (const Drawn& figure : drawn()) {
    if (figure.spec.fused) expect_rows(schedule.rows, figure);
  }
  EXPECT_DOUBLE_EQ(length(schedule, 0.5, 1), 14);
}

// Reported cases (docs/cases.md): H24.
TEST(PaperFigures, OnlyFigure7DNeedsAChannelThatHoldsAMessage) {
  for (const Drawn& figure : drawn()) {
    const Verdict verdict = verify(lower(generate("chimera", figure.spec)));
    ASSERT_TRUE(verdict.ok()) << figure.figure;
    const bool split = figure.spec.method == Method::kDoubling && !figure.spec.fused;
    EXPECT_EQ(largest_capacity(verdict), split ? 1 : 0) << figure.figure;
  }
}

// Puts actions of a worker of Chimera with f = 1: of its own pipe, in which its stage is the
// smaller one, and of the other.
class ClosedForm {
 public:
  ClosedForm(int stages, int worker) : stages_(stages) {
    const bool is_down = worker < stages / 2;
    own_ = {is_down ? 0 : 1, is_down ? worker : stages - 1 - worker};
    other_ = {1 - own_.pipe, stages - 1 - own_.stage};
    a = stages / 2 - own_.stage;
    b = stages / 2 - a;
  }

  void own(Op op) { put(op, own_); }
  void other(Op op) { put(op, other_); }
  // Micro-batches from here on belong to the next unit; `micros` are in one pipe of a unit.
  [[nodiscard]] Row row(int micros) const {
    Row row = row_;
    for (Action& action : row) {
      const int unit = action.micro / micros;
      action.micro += (unit + action.pipe) * micros;  // each unit has two pipes' micro-batches
    }
    return row;
  }

  int a = 0, b = 0;  // as the sources call them

 private:
  struct Place {
    int pipe = 0, stage = 0;
  };

  void put(Op op, const Place& place) {
    row_.push_back({.op = op,
                    .stage = static_cast<std::int16_t>(place.stage),
                    .pipe = static_cast<std::int16_t>(place.pipe),
                    .micro = next_[{op, place.pipe}]++});
  }

  int stages_;
  Place own_, other_;
  std::map<std::pair<Op, int>, int> next_;
  Row row_;
};

// ChimeraBk and PipeFisher's generators: one unit, and units joined directly.
Row direct_row(int stages, int worker, int units) {
  ClosedForm row(stages, worker);
  for (int unit = 0; unit < units; ++unit) {
    for (int i = 0; i < row.a; ++i) {
      if (unit > 0) row.own(Op::kBackward);
      row.own(Op::kForward);
    }
    for (int i = 0; i < row.b; ++i) row.other(Op::kForward), row.own(Op::kForward);
    for (int i = 0; i < row.a; ++i) row.other(Op::kForward), row.other(Op::kBackward);
    for (int i = 0; i < row.b; ++i) row.own(Op::kBackward), row.other(Op::kBackward);
  }
  for (int i = 0; i < row.a; ++i) row.own(Op::kBackward);
  return row.row(stages / 2);
}

// The authors' generator for doubling, with c = b + D/2.
Row doubling_row(int stages, int worker, int units) {
  ClosedForm row(stages, worker);
  const auto twice = [](auto put) { put(), put(); };
  const auto own = [&] { row.own(Op::kForward); };
  const auto other = [&] { row.other(Op::kForward); };
  for (int unit = 0; unit < units; ++unit) {
    for (int i = 0; i < row.a; ++i) {
      if (unit > 0) row.own(Op::kBackward);
      twice(own);
    }
    for (int i = 0; i < row.b; ++i) twice(other), twice(own);
    for (int i = 0; i < row.a; ++i) twice(other), row.other(Op::kBackward);
    for (int i = 0; i < row.b + stages / 2; ++i) row.own(Op::kBackward), row.other(Op::kBackward);
  }
  for (int i = 0; i < row.a; ++i) row.own(Op::kBackward);
  return row.row(stages);
}

TEST(PaperFigures, ChimeraHasTheClosedFormForOnePair) {
  for (int d = 2; d <= 32; d += 2) {
    for (int units = 1; units <= 3; ++units) {
      const Schedule direct = generate("chimera", {.stages = d, .micros = units * d});
      const Schedule doubling =
          generate("chimera", {.stages = d, .micros = units * 2 * d, .method = Method::kDoubling});
      for (int worker = 0; worker < d; ++worker) {
        const auto w = static_cast<std::size_t>(worker);
        EXPECT_EQ(direct.rows[w], direct_row(d, worker, units)) << d << " P" << w;
        EXPECT_EQ(doubling.rows[w], doubling_row(d, worker, units)) << d << " P" << w;
      }
    }
  }
}

}  // namespace
}  // namespace chimera
