// A word as a number: all of it, or nothing; and back.
#pragma once

#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace chimera {

// Nothing for an empty word, for one with anything else in it, and for what Number cannot hold.
// Reads the same in every locale. Ranges are for whoever knows what the number means.
template <class Number>
[[nodiscard]] std::optional<Number> parse_number(std::string_view word) {
  Number value{};
  const char* const end = word.data() + word.size();
  const auto [stopped, error] = std::from_chars(word.data(), end, value);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return value;
}

// The fewest digits that read back as the same number, as a float in TOML or JSON: "0.3", "4.0".
[[nodiscard]] inline std::string exact_text(double value) {
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  std::string text(digits.data(), end);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

}  // namespace chimera
