#include "chimera/runtime/agreement.h"

#include <gtest/gtest.h>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/runtime/launch.h"

namespace chimera {
namespace {

// What ends a world whose rank 2 has other facts than the rest; empty if nothing does.
std::string difference(const Facts& usual, const Facts& second) {
  try {
    launch_local(4, {.limit_s = 60}, [&](Transport& transport) {
      agree(transport, transport.rank() == 2 ? second : usual);
    });
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  return "";
}

// Reported cases (docs/cases.md): H11.
TEST(Agreement, NamesTheFirstDifferenceAndItsRank) {
  const Facts usual = {{"version", "1"}, {"model.dtype", "fp64"}, {"train.batch", "8"}};
  EXPECT_EQ(difference(usual, usual), "");
  Facts other = usual;
  other[1].second = "fp32";
  other[2].second = "9";
  EXPECT_EQ(difference(usual, other),
            "rank 2 has model.dtype = fp32, but rank 0 has fp64; all ranks must run the same "
            "program on the same configuration: check what each host was started with");
}

TEST(Agreement, SeesFactsThatAreMissingOrNew) {
  const Facts usual = {{"a", "1"}, {"b", ""}};
  for (const Facts& other : {Facts{{"a", "1"}}, Facts{{"a", "1"}, {"b", ""}, {"c", ""}}, Facts{}}) {
    EXPECT_NE(difference(usual, other).find("another version"), std::string::npos);
  }
}

TEST(Agreement, DigestIsThePublishedHash) {
  EXPECT_EQ(digest(""), "cbf29ce484222325");
  EXPECT_EQ(digest("a"), "af63dc4c8601ec8c");
  EXPECT_EQ(digest("foobar"), "85944171f73967e8");
}

}  // namespace
}  // namespace chimera
