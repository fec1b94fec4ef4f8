#include "chimera/base/text.h"

#include <gtest/gtest.h>

#include <array>

namespace chimera {
namespace {

TEST(Text, SplitsAndTrims) {
  EXPECT_EQ(split("a,,b", ','), (std::vector<std::string_view>{"a", "", "b"}));
  EXPECT_EQ(split("", ','), (std::vector<std::string_view>{""}));
  EXPECT_EQ(trim(" \t a b \n"), "a b");
  EXPECT_EQ(trim("  "), "");
  EXPECT_EQ(first_line("why \nframe 0\n"), "why");
  EXPECT_EQ(first_line("why"), "why");
}

TEST(Text, NamesTheNearestWordOnlyWhenOneIsNear) {
  constexpr std::array<std::string_view, 3> kKnown = {"gpipe", "1f1b", "chimera"};
  EXPECT_EQ(nearest_word("chimerra", kKnown), "chimera");
  EXPECT_EQ(nearest_word("gpip", kKnown), "gpipe");
  EXPECT_EQ(nearest_word("interleaved", kKnown), "");
  EXPECT_EQ(unknown_word("schedule", "1f1", kKnown),
            "unknown schedule '1f1'; known: gpipe, 1f1b, chimera (did you mean '1f1b'?)");
}

}  // namespace
}  // namespace chimera
