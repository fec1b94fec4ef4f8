#include <algorithm>

#include "chimera/base/text.h"
#include "chimera/schedule/verify.h"

namespace chimera {

std::string explain(const Program& program, const Violation& violation) {
  constexpr int kAround = 5;
  const Row& row =
      program.rows.empty() ? Row{} : program.rows[static_cast<std::size_t>(violation.worker)];
  const int size = static_cast<int>(row.size());
  const int first = std::clamp(violation.position - kAround, 0, size);
  const int last = std::clamp(violation.position + kAround + 1, 0, size);
  std::string line = cat("  P", violation.worker, first > 0 ? " ... " : "  ");
  std::string marks(line.size(), ' ');
  const auto put = [&](const std::string& word, bool marked) {
    line += word + " ";
    marks += std::string(word.size(), marked ? '^' : ' ') + " ";
  };
  for (int i = first; i < last; ++i) {
    put(to_string(row[static_cast<std::size_t>(i)]), i == violation.position);
  }
  if (violation.position >= size) put("(end)", true);
  if (last < size) line += "...";
  return cat(rule_name(violation.rule), ": worker ", violation.worker, ", position ",
             violation.position, ": ", violation.what, "\n", line, "\n",
             std::string(trim(marks)).empty() ? "" : marks, "\n");
}

}  // namespace chimera
