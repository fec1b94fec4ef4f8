// A word as a number: all of it, or nothing.
#pragma once

#include <charconv>
#include <optional>
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

}  // namespace chimera
