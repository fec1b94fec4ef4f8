#include "chimera/cli/text_table.h"

#include <algorithm>
#include <string_view>

#include "chimera/base/text.h"

namespace chimera {

std::string pad_left(const std::string& text, std::size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

std::string pad_right(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

std::string without_blanks_at_the_end(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

std::string wrapped(const std::string& text, std::size_t indent, std::size_t width) {
  std::string out;
  std::size_t used = indent;
  for (const std::string_view word : split(text, ' ')) {
    const bool first = out.empty();
    if (!first && used + 1 + word.size() > width) {
      out += "\n" + std::string(indent, ' ');
      used = indent;
    } else if (!first) {
      out += " ";
      ++used;
    }
    out += word;
    used += word.size();
  }
  return out;
}

}  // namespace chimera
