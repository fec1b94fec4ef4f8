// Small text helpers: joining values into a message, splitting, and naming the nearest known word.
#pragma once

#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace chimera {

// cat("stage ", 3, " of ", 4) == "stage 3 of 4".
template <class... Parts>
[[nodiscard]] std::string cat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

// The values with a separator between them.
template <class Range>
[[nodiscard]] std::string join(const Range& values, std::string_view separator = ", ") {
  std::ostringstream out;
  std::string_view before;
  for (const auto& value : values) {
    out << before << value;
    before = separator;
  }
  return out.str();
}

// "0.31 s", "42 s".
[[nodiscard]] std::string seconds_text(double seconds);

// With so many digits after the point.
[[nodiscard]] std::string fixed_text(double value, int digits);

// "12.5 %" of 0.125.
[[nodiscard]] std::string percent_text(double part);

// "12.34 GB", "840 MB", "3 KB".
[[nodiscard]] std::string bytes_text(double bytes);

// Without blanks at either end.
[[nodiscard]] std::string_view trim(std::string_view text);

// Up to the first line end: what other libraries throw may go on with a stack trace.
[[nodiscard]] std::string_view first_line(std::string_view text);

// The parts between separators, untrimmed; an empty text has one empty part.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);

// The known word with the least edit distance to `word`, or "" where none is near (more than half
// of its letters would have to change). For "did you mean".
[[nodiscard]] std::string nearest_word(std::string_view word,
                                       std::span<const std::string_view> known);

// "unknown schedule 'chimerra'; known: gpipe, 1f1b, chimera (did you mean 'chimera'?)"
[[nodiscard]] std::string unknown_word(std::string_view kind, std::string_view word,
                                       std::span<const std::string_view> known);

}  // namespace chimera
