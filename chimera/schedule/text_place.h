// Where a reader of schedules is in its text, and how it says what is wrong there. What the parsers
// of the text form and of CSV have in common.
#pragma once

#include <string_view>

#include "chimera/base/error.h"
#include "chimera/base/number.h"
#include "chimera/base/text.h"

namespace chimera {

struct TextPlace {
  std::string_view source;  // in messages
  int line = 0;             // from 1

  [[noreturn]] void fail(std::string_view word, std::string_view expected) const {
    throw Error(ErrorCode::kUsage, cat(source, ":", line, ": '", word, "': expected ", expected));
  }

  // The number that `digits`, a part of `word`, are; all of them.
  [[nodiscard]] int number(std::string_view word, std::string_view digits, int low, int high,
                           std::string_view what) const {
    const auto value = parse_number<int>(digits);
    if (!value || *value < low || *value > high) {
      fail(word, cat(what, " from ", low, " to ", high));
    }
    return *value;
  }
};

// The text without the mark that some editors put before UTF-8.
[[nodiscard]] inline std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

}  // namespace chimera
