#include "chimera/schedule/text_form.h"

#include <gtest/gtest.h>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/generate/generate.h"

namespace chimera {
namespace {

constexpr const char* kText =
    "name: small\nstages: 2\nworkers: 2\npipes: 2\nmicros: 4\nplacement: 0,1;1,0\n"
    "0F0+2,0I0,0W0,0B1,1F2@1,1B2@1,1F3@1,1B3@1\n"
    "1F0+2,1B0,1R1,1B1,0F2+2@1,0B2@1,0B3@1\n";

TEST(TextForm, PrintsWhatItParses) { EXPECT_EQ(print(parse(kText, "test")), kText); }

TEST(TextForm, ParsesWhatItPrints) {
  for (const Generator& generator : generators()) {
    for (int d = 2; d <= 8; d += 2) {
      for (int n = 1; n <= 2 * d; ++n) {
        const Schedule schedule = generate(generator.name, {.stages = d, .micros = n});
        EXPECT_EQ(parse(print(schedule), "test"), schedule);
      }
    }
  }
}

TEST(TextForm, SkipsCommentsBlanksAndSpaces) {
  const Schedule schedule = parse(
      "# a comment\nname: x # why\n\n stages : 1\nworkers: 1\npipes:1\nmicros: 1\n"
      "placement: 0\n\n 0F0 , 0B0 # the row\n\n",
      "test");
  EXPECT_EQ(schedule.name, "x");
  EXPECT_EQ(schedule.rows[0].size(), 2U);
}

TEST(TextForm, WritesARowWithoutActionsAsADash) {
  Schedule schedule = generate("1f1b", {.stages = 2, .micros = 1});
  schedule.rows[1].clear();
  EXPECT_EQ(parse(print(schedule), "test"), schedule);
}

struct Bad {
  const char* from;  // part of kText to replace
  const char* to;
  const char* says;
};

TEST(TextForm, NamesLineWordAndWhatWasExpected) {
  const std::vector<Bad> cases = {
      {"0W0", "0X0", "test:7: '0X0': expected one of the ops F, B, I, W, R"},
      {"0W0", "0w0", "test:7: '0w0': expected one of the ops"},
      {"0W0", "W0", "test:7: 'W0': expected <stage><F|B|I|W|R|S><micro>"},
      {"0W0", "0W", "test:7: '0W': expected a micro-batch from 0 to 3"},
      {"0W0", "", "test:7: '': expected <stage>"},
      {"0W0", "2W0", "test:7: '2W0': expected a stage from 0 to 1"},
      {"0W0", "0W4", "test:7: '0W4': expected a micro-batch from 0 to 3"},
      {"0W0", "0W0@2", "test:7: '0W0@2': expected a pipe from 0 to 1"},
      {"0F2+2@1", "0F3+2@1", "test:8: '0F3+2@1': expected a micro-batch from 0 to 2"},
      {"0F2+2@1", "0F2+0@1", "test:8: '0F2+0@1': expected a span from 1 to 4"},
      {"0W0", "0W99999999999", "test:7: '0W99999999999': expected a micro-batch"},
      {"micros: 4", "micros: 10000000", "test:5: '10000000': expected at most 8388608 micros"},
      {"micros: 4", "micros: 0", "test:5: '0': expected a number of micros from 1"},
      {"stages: 2", "stages: 3", "test:2: '3': expected 2 stages, as in the placement"},
      {"placement: 0,1;1,0", "placement: 0,1;1", "test:6: '0,1;1': expected a placement"},
      {"placement: 0,1;1,0", "placement: 0,x;1,0", "test:6: 'x': expected a worker from 0"},
      {"name: small", "title: small", "test:1: 'title': expected one of the headers name"},
      {"stages: 2", "name: b", "test:2: 'name': expected each header once"},
      {"micros: 4\n", "", "expected the header 'micros:' before the rows"},
      {"1F0+2,1B0,1R1,1B1,0F2+2@1,0B2@1,0B3@1\n", "", "expected 2 rows, one a worker; found 1"},
      {"1F0+2,1B0", "-\n-", "expected no more rows than the 2 workers"},
  };
  for (const Bad& bad : cases) {
    std::string text = kText;
    const auto position = text.find(bad.from);
    ASSERT_NE(position, std::string::npos) << bad.from;
    text.replace(position, std::string_view(bad.from).size(), bad.to);
    try {
      (void)parse(text, "test");
      ADD_FAILURE() << "not refused: " << bad.says;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(bad.says), std::string::npos)
          << error.what() << "\nexpected: " << bad.says;
    }
  }
  EXPECT_THROW((void)parse("", "test"), Error);
}

}  // namespace
}  // namespace chimera
