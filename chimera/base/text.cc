#include "chimera/base/text.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <iomanip>
#include <numeric>

namespace chimera {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replace, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string seconds_text(double seconds) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), seconds < 10 ? "%.2f s" : "%.0f s", seconds);
  return text.data();
}

std::string fixed_text(double value, int digits) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(digits) << value;
  return out.str();
}

std::string percent_text(double part) { return fixed_text(100 * part, 1) + " %"; }

std::string bytes_text(double bytes) {
  if (bytes >= 1e9) return fixed_text(bytes / 1e9, bytes >= 1e11 ? 0 : 2) + " GB";
  if (bytes >= 1e6) return fixed_text(bytes / 1e6, bytes >= 1e8 ? 0 : 1) + " MB";
  return fixed_text(bytes / 1e3, 0) + " KB";
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const auto first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::string_view first_line(std::string_view text) { return trim(text.substr(0, text.find('\n'))); }

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0;;) {
    const std::size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

std::string nearest_word(std::string_view word, std::span<const std::string_view> known) {
  std::string_view best;
  std::size_t best_distance = std::max<std::size_t>(word.size() / 2, 1) + 1;
  for (const std::string_view candidate : known) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return std::string(best);
}

std::string unknown_word(std::string_view kind, std::string_view word,
                         std::span<const std::string_view> known) {
  std::string text = cat("unknown ", kind, " '", word, "'; known: ", join(known));
  if (const std::string near = nearest_word(word, known); !near.empty()) {
    text += cat(" (did you mean '", near, "'?)");
  }
  return text;
}

}  // namespace chimera
