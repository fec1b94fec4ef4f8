// Text in columns and lines of a set width, for what modes print.
#pragma once

#include <cstddef>
#include <string>

namespace chimera {

[[nodiscard]] std::string pad_left(const std::string& text, std::size_t width);
[[nodiscard]] std::string pad_right(std::string text, std::size_t width);

// With its newline.
[[nodiscard]] std::string without_blanks_at_the_end(std::string line);

// In lines of at most `width`, each but the first indented.
[[nodiscard]] std::string wrapped(const std::string& text, std::size_t indent, std::size_t width);

}  // namespace chimera
