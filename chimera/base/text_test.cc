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

TEST(Text, WritesSizesAndParts) {
  EXPECT_EQ(fixed_text(2.345, 1), "2.3");
  EXPECT_EQ(percent_text(0.1254), "12.5 %");
  EXPECT_EQ(bytes_text(123456789012.0), "123 GB");
  EXPECT_EQ(bytes_text(12.344e9), "12.34 GB");
  EXPECT_EQ(bytes_text(840e6), "840 MB");
  EXPECT_EQ(bytes_text(2500), "2 KB");
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
