// Every generator x all sizes up to a bound: no violation, and slots, stash and orders equal the
// formulas and drawn schedules of the paper.
#include "chimera/generate/generate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/schedule/lower.h"
#include "chimera/schedule/verify.h"
#include "chimera/simulate/simulate.h"

namespace chimera {
namespace {

Schedule make(std::string_view name, int stages, int micros, std::optional<int> pairs = {}) {
  return generate(name, {.stages = stages, .micros = micros, .pairs = pairs});
}

std::vector<int> pair_counts(int stages) {
  std::vector<int> pairs;
  for (int f = 1; f <= stages / 2; ++f) {
    if (stages / 2 % f == 0) pairs.push_back(f);
  }
  return pairs;
}

// No violation and no channel that must hold a message (paired sends and receives are enough).
Verdict expect_proved(const Schedule& schedule) {
  Verdict verdict = verify(lower(schedule));
  const std::string what = cat(schedule.name, " D=", schedule.stages(), " N=", schedule.micros,
                               " pipes=", schedule.pipes());
  EXPECT_TRUE(verdict.ok()) << what << ": " << (verdict.ok() ? "" : verdict.violations[0].what);
  for (const Channel& channel : verdict.channels) {
    EXPECT_EQ(channel.capacity, 0) << what << " " << channel.from << "->" << channel.to;
  }
  return verdict;
}

double slots(const Schedule& schedule) {
  return makespan(simulate(lower(schedule), Costs::uniform(schedule.stages(), 1, 1)));
}

// Reported cases (docs/cases.md): H2, P7.
TEST(Generate, GPipeAnd1F1BAreProvedForAllSmallSizes) {
  for (int d = 1; d <= 16; ++d) {
    for (int n = 1; n <= 2 * d + 1; ++n) {
      const Verdict gpipe = expect_proved(make("gpipe", d, n));
      const Verdict one_f_one_b = expect_proved(make("1f1b", d, n));
      for (int worker = 0; worker < d; ++worker) {
        const auto w = static_cast<std::size_t>(worker);
        EXPECT_EQ(gpipe.peak_stash[w], n);
        EXPECT_EQ(one_f_one_b.peak_stash[w], std::min(n, d - worker));
      }
    }
  }
}

// Table 2 and section 3.6: 2N + D/f - 2 slots, stash exactly [D - D/(2f) + 1, D].
// Reported cases (docs/cases.md): H8, M1.
TEST(Generate, ChimeraHasTheSlotsAndStashOfThePaper) {
  for (int d = 2; d <= 32; d += 2) {
    for (const int f : pair_counts(d)) {
      const Schedule schedule = make("chimera", d, d, f);
      const Verdict verdict = expect_proved(schedule);
      EXPECT_DOUBLE_EQ(slots(schedule), 2 * d + d / f - 2) << d << " " << f;
      const auto [low, high] =
          std::minmax_element(verdict.peak_stash.begin(), verdict.peak_stash.end());
      EXPECT_EQ(*low, d - d / (2 * f) + 1) << d << " " << f;
      EXPECT_EQ(*high, d) << d << " " << f;
      if (f == 1) {
        for (int w = 0; w < d; ++w) {
          const int a = d / 2 - std::min(w, d - 1 - w);
          EXPECT_EQ(verdict.peak_stash[static_cast<std::size_t>(w)], d - a + 1);
        }
      }
    }
  }
}

// Reported cases (docs/cases.md): H1, P7, P8.
TEST(Generate, ChimeraIsProvedForEveryNumberOfMicroBatches) {
  for (int d = 2; d <= 12; d += 2) {
    for (const int f : pair_counts(d)) {
      for (int n = 1; n <= 3 * d + 1; ++n) expect_proved(make("chimera", d, n, f));
    }
  }
}

TEST(Generate, ChimeraUnitsJoinWithoutABubbleAtEqualSlots) {
  for (int d = 2; d <= 16; d += 2) {
    for (const int f : pair_counts(d)) {
      for (int k = 2; k <= 4; ++k) {
        EXPECT_DOUBLE_EQ(slots(make("chimera", d, k * d, f)), 2 * k * d + d / f - 2)
            << d << " " << f << " " << k;
      }
    }
  }
}

// Section 3.1: fewer micro-batches than stages are spread evenly over the pipes; one uses one pipe.
TEST(Generate, ChimeraSpreadsFewMicroBatchesEvenly) {
  for (int d = 2; d <= 16; d += 2) {
    for (int n = 1; n <= d; ++n) {
      std::map<int, int> first_stage_forwards;
      for (const Row& row : make("chimera", d, n).rows) {
        for (const Action& action : row) {
          if (action.op == Op::kForward && action.stage == 0) ++first_stage_forwards[action.pipe];
        }
      }
      EXPECT_EQ(first_stage_forwards[0], (n + 1) / 2);
      EXPECT_EQ(first_stage_forwards[1], n / 2);
    }
  }
}

// The closed form of the row of a worker for f = 1 (ChimeraBk and PipeFisher's generators).
Row closed_form(int stages, int worker) {
  const int half = stages / 2;
  const bool is_down = worker < half;
  const int own = is_down ? worker : stages - 1 - worker, other = stages - 1 - own;
  const int own_pipe = is_down ? 0 : 1, other_pipe = 1 - own_pipe;
  const int a = half - own, b = half - a;
  std::map<std::pair<Op, int>, int> next;
  Row row;
  const auto put = [&](Op op, bool is_own) {
    const int pipe = is_own ? own_pipe : other_pipe;
    row.push_back({.op = op,
                   .stage = static_cast<std::int16_t>(is_own ? own : other),
                   .pipe = static_cast<std::int16_t>(pipe),
                   .micro = pipe * half + next[{op, pipe}]++});
  };
  for (int i = 0; i < a; ++i) put(Op::kForward, true);
  for (int i = 0; i < b; ++i) put(Op::kForward, false), put(Op::kForward, true);
  for (int i = 0; i < a; ++i) put(Op::kForward, false), put(Op::kBackward, false);
  for (int i = 0; i < b; ++i) put(Op::kBackward, true), put(Op::kBackward, false);
  for (int i = 0; i < a; ++i) put(Op::kBackward, true);
  return row;
}

TEST(Generate, ChimeraEqualsTheClosedFormForOnePair) {
  for (int d = 2; d <= 32; d += 2) {
    const Schedule schedule = make("chimera", d, d);
    for (int w = 0; w < d; ++w) {
      EXPECT_EQ(schedule.rows[static_cast<std::size_t>(w)], closed_form(d, w)) << d << " P" << w;
    }
  }
}

// Orders drawn in the paper's figures, read off action by action: F or B and the micro-batch.
struct Drawn {
  const char* figure;
  int stages, micros, pairs, slots;
  double backward;
  std::vector<const char*> rows;
};

const std::vector<Drawn>& drawn() {
  static const std::vector<Drawn> figures = {
      {"Figures 6 and 7 (a)",
       4,
       4,
       1,
       16,
       2,
       {"F0 F1 F2 B2 F3 B3 B0 B1", "F0 F2 F1 F3 B2 B0 B3 B1", "F2 F0 F3 F1 B0 B2 B1 B3",
        "F2 F3 F0 B0 F1 B1 B2 B3"}},
      {"Figure 7 (b)",
       4,
       8,
       1,
       30,
       2,
       {"F0 F1 F2 B2 F3 B3 B0 F4 B1 F5 F6 B6 F7 B7 B4 B5",
        "F0 F2 F1 F3 B2 B0 B3 B1 F4 F6 F5 F7 B6 B4 B7 B5",
        "F2 F0 F3 F1 B0 B2 B1 B3 F6 F4 F7 F5 B4 B6 B5 B7",
        "F2 F3 F0 B0 F1 B1 B2 F6 B3 F7 F4 B4 F5 B5 B6 B7"}},
      {"Figure 8",
       8,
       8,
       2,
       18,
       1,
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

std::string order(const Row& row) {
  std::vector<std::string> words;
  for (const Action& action : row) words.push_back(cat(info(action.op).letter, action.micro));
  return join(words, " ");
}

TEST(Generate, ChimeraEqualsTheDrawnSchedules) {
  for (const Drawn& figure : drawn()) {
    const Schedule schedule = make("chimera", figure.stages, figure.micros, figure.pairs);
    for (std::size_t worker = 0; worker < figure.rows.size(); ++worker) {
      EXPECT_EQ(order(schedule.rows[worker]), figure.rows[worker])
          << figure.figure << ", P" << worker;
    }
    const Costs costs = Costs::uniform(figure.stages, 1, figure.backward);
    EXPECT_DOUBLE_EQ(makespan(simulate(lower(schedule), costs)), figure.slots) << figure.figure;
  }
}

struct Refusal {
  const char* name;
  Spec spec;
  const char* says;
};

// Reported cases (docs/cases.md): H23, P5, P8.
TEST(Generate, RefusesWhatCannotExistWithTheNearestLegalValues) {
  const std::vector<Refusal> refusals = {
      {"chimera", {.stages = 3, .micros = 4}, "nearest is 2 or 4"},
      {"chimera", {.stages = 1, .micros = 4}, "nearest is 2"},
      {"chimera", {.stages = 8, .micros = 4, .pairs = 3}, "must divide 4: 1, 2, 4"},
      {"chimera", {.stages = 8, .micros = 4, .pairs = 0}, "must divide 4: 1, 2, 4"},
      {"1f1b", {.stages = 4, .micros = 4, .pairs = 2}, "leave pairs out"},
      {"gpipe", {.stages = 0, .micros = 4}, "stages is 0"},
      {"gpipe", {.stages = 4, .micros = 0}, "micro-batches is 0"},
      {"gpipe", {.stages = 4096, .micros = 5000}, "1 to 4096 with 4096 stages"},
      {"gpipe", {.stages = 4, .micros = -1}, "micro-batches is -1"},
      {"chimerra", {.stages = 4, .micros = 4}, "did you mean 'chimera'"},
  };
  for (const Refusal& refusal : refusals) {
    try {
      (void)generate(refusal.name, refusal.spec);
      ADD_FAILURE() << refusal.name << " was not refused: " << refusal.says;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      EXPECT_NE(std::string(error.what()).find(refusal.says), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace chimera
