#include "chimera/schedule/csv_form.h"

#include <gtest/gtest.h>

#include <functional>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/generate/generate.h"
#include "chimera/schedule/lower.h"
#include "chimera/schedule/text_form.h"
#include "chimera/schedule/verify.h"

namespace chimera {
namespace {

// What `does` throws; "" where it does not.
std::string csv_error(const std::function<void()>& does) {
  try {
    does();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  return "";
}

void expect_csv_error(const std::function<void()>& does, const std::string& says) {
  const std::string what = csv_error(does);
  EXPECT_NE(what.find(says), std::string::npos) << what << "\nexpected: " << says;
}

Schedule one_pipe(const char* name, int stages, int micros) {
  return generate(name, {.stages = stages, .micros = micros, .pairs = {}});
}

TEST(CsvForm, WritesOneLineARank) {
  EXPECT_EQ(print_csv(one_pipe("1f1b", 2, 2)), "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
}

TEST(CsvForm, ReadsWhatItWrites) {
  for (const char* name : {"gpipe", "1f1b"}) {
    for (int d = 1; d <= 9; ++d) {
      for (int n = 1; n <= 2 * d + 1; ++n) {
        const Schedule schedule = one_pipe(name, d, n);
        const std::string text = print_csv(schedule);
        EXPECT_EQ(parse_csv(text, cat("some/", name, ".csv")), schedule) << text;
      }
    }
  }
}

// As torch 2.13.0 dumps ScheduleInterleavedZeroBubble, two ranks of two stages.
constexpr const char* kZeroBubble =
    "0F0,0F1,2F0,,2F1,2I0,2W0,2I1,2W1,0I0,0W0,0I1,0W1\r\n"
    ",1F0,1F1,3F0,3I0,3F1,3I1,3W0,1I0,3W1,1I1,1W0,1W1\r\n";

TEST(CsvForm, InfersThePlacementOfInterleavedStages) {
  const Schedule schedule = parse_csv(kZeroBubble, "folder/zero bubble.csv");
  EXPECT_EQ(schedule.name, "zero bubble");
  EXPECT_EQ(schedule.micros, 2);
  EXPECT_EQ(schedule.placement, Placement({{0, 1, 0, 1}}));
  EXPECT_EQ(schedule.rows[1][0], (Action{.stage = 1}));
  EXPECT_TRUE(verify(lower(schedule)).ok());
  EXPECT_EQ(parse_csv(print_csv(schedule), "zero bubble.csv"), schedule);
}

TEST(CsvForm, SkipsIdleCellsMarksOfTheEncodingAndEmptyLinesAtTheEnd) {
  const Schedule expected = one_pipe("1f1b", 2, 2);
  for (const char* text :
       {"0F0,0F1,,,0B0,,0B1\n,1F0,1B0,1F1,,1B1", "0F0,0F1,0B0,0B1,,\r\n1F0,1B0,1F1,1B1\r\n",
        "\xEF\xBB\xBF"
        "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n",
        " 0F0 , 0F1,\t0B0,0B1\n1F0,1B0,1F1,1B1\n\n\r\n"}) {
    EXPECT_EQ(parse_csv(text, "1f1b"), expected) << text;
  }
}

TEST(CsvForm, NamesAScheduleAfterItsFile) {
  const auto name = [](std::string_view source) { return parse_csv("0F0,0B0", source).name; };
  EXPECT_EQ(name("a/b/my.schedule.csv"), "my.schedule");
  EXPECT_EQ(name("no#1.csv"), "no_1");  // '#' begins a comment in the text form
  EXPECT_EQ(name(" .csv"), "csv");
}

TEST(CsvForm, NamesLineWordAndWhatWasExpected) {
  struct Bad {
    const char* text;
    const char* says;
  };
  const std::vector<Bad> cases = {
      {"0F0,0SEND_F0,0B0",
       "test.csv:1: '0SEND_F0': expected <stage><F|B|I|W><micro>, as in 0F3 or 2B1; all but "
       "computation follows from it: dump with format=\"compute_only\""},
      {"0F0\n1RECV_B1", "test.csv:2: '1RECV_B1': expected <stage><F|B|I|W><micro>"},
      {"0UNSHARD,0F0", "or 2B1; all but computation follows from it"},
      {"0REDUCE_GRAD", "or 2B1; all but computation follows from it"},
      {"(0F7;7B3)OVERLAP_F_B",
       "test.csv:1: '(0F7;7B3)OVERLAP_F_B': expected <stage><F|B|I|W><micro>, "
       "as in 0F3 or 2B1; write one action after the other"},
      {"0F0,0B0,0W0", "test.csv:1: '0W0': expected 0I0 before it, not 0B0"},
      {"0R0", "'0R0': expected <stage><F|B|I|W><micro>"},
      {"0f0", "'0f0': expected <stage>"},
      {"F0", "'F0': expected <stage>"},
      {"00", "'00': expected <stage>"},
      {"-", "'-': expected <stage>"},
      {"0F0@1", "'0F0@1': expected <stage>"},
      {"0F0+2", "'0F0+2': expected <stage>"},
      {"\"0F0\"", "'\"0F0\"': expected <stage>"},
      {"0F0;0B0", "'0F0;0B0': expected <stage>"},
      {"name: x", "'name: x': expected <stage>"},
      {"0F", "'0F': expected a micro-batch from 0 to 16777215"},
      {"0F99999999999", "'0F99999999999': expected a micro-batch from 0"},
      {"4096F0", "'4096F0': expected a stage from 0 to 4095"},
      {"0F0\n\n1F0", "test.csv:2: '': expected an action for rank 1"},
      {",,\n1F0", "test.csv:1: ',,': expected an action for rank 0"},
      {"0F0\n0B0", "test.csv:2: '0B0': expected stage 0 on line 1 alone: a stage lies on one rank"},
      {"0F0\n2F0",
       "test.csv:2: 'end of file': expected an action of stage 1, for there is one of "
       "stage 2"},
      {"0F0,1F16777215", "expected at most 8388608 micro-batches with 2 stages; found 16777216"},
      {"", "test.csv:1: '': expected an action for rank 0"},
      {"\n\r\n", "test.csv:1: '': expected an action for rank 0"},
  };
  for (const Bad& bad : cases) {
    expect_csv_error([&] { (void)parse_csv(bad.text, "test.csv"); }, bad.says);
  }
}

TEST(CsvForm, RefusesToWriteWhatTheCsvCannotSay) {
  const auto refuses = [](const std::function<void(Schedule&)>& change, const std::string& says) {
    Schedule schedule = one_pipe("1f1b", 2, 2);
    change(schedule);
    expect_csv_error([&] { (void)print_csv(schedule); },
                     "schedule 1f1b cannot be written as CSV: " + says);
  };
  refuses([](Schedule& s) { s.rows[1][1].op = Op::kRecompute; }, "1R0 of worker 1 is a recompute");
  refuses([](Schedule& s) { s.rows[0][2].age = 1; }, "0B0~1 of worker 0 uses older weights");
  refuses([](Schedule& s) { s.rows[0][0].span = 2; }, "0F0+2 of worker 0 covers several");
  refuses([](Schedule& s) { s.rows[0].push_back({.op = Op::kStep, .stage = 0, .micro = 1}); },
          "0S1 of worker 0 is a step, for which the CSV has no word; use the text form");
  refuses([](Schedule& s) { s.rows[0].swap(s.rows[1]); },
          "1F0 of worker 0 is not where the placement has its stage");
  refuses([](Schedule& s) { s.rows[1].clear(); }, "worker 1 has no action");
  refuses([](Schedule& s) { s.placement = Placement({{0, 1, 1}}); }, "stage 2 has no action");
  refuses([](Schedule& s) { s.placement = Placement({{0, 1}, {1, 0}}); }, "it has 2 pipes");
  refuses([](Schedule& s) { s.micros = 3; }, "its actions are of 2 micro-batches, it says 3");
  refuses([](Schedule& s) { s.rows[0][0].stage = 2; }, "2F0 of worker 0 is outside");
  expect_csv_error([] { (void)print_csv(one_pipe("chimera", 4, 4)); },
                   "3F2@1 of worker 0 is of pipe 1, and the CSV has one pipe; use the text form");
}

// torch takes the loss of micro-batch m as the m-th that it computed.
TEST(CsvForm, RefusesForwardsOfTheLastStageOutOfOrder) {
  const Schedule schedule = parse_csv("0F1,0F0,0B1,0B0\n1F1,1B1,1F0,1B0\n", "x.csv");
  EXPECT_TRUE(verify(lower(schedule)).ok());
  expect_csv_error([&] { (void)print_csv(schedule); },
                   "1F1 of worker 1 is not in the order of micro-batches");
}

TEST(CsvForm, IsKnownByTheEndOfAFilesName) {
  const Schedule schedule = one_pipe("1f1b", 2, 2);
  EXPECT_EQ(parse_file(print_csv(schedule), "1f1b.csv"), schedule);
  EXPECT_EQ(parse_file(print_csv(schedule), "1f1b.CSV"), schedule);
  EXPECT_EQ(parse_file(print(schedule), "1f1b.txt"), schedule);
  EXPECT_EQ(parse_file(print(schedule), "standard input"), schedule);
}

}  // namespace
}  // namespace chimera
