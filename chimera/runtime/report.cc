#include "chimera/runtime/report.h"

#include <unistd.h>

#include <algorithm>

#include "chimera/base/text.h"
#include "chimera/runtime/launched_process.h"

namespace chimera {
namespace {

// One line of bounded length, whatever a user's words in it hold.
std::string printable(std::string text) {
  constexpr std::size_t kMost = 1000;
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 0x7F; }, '?');
  if (text.size() <= kMost) return text;
  text.resize(kMost);
  return text += " ...";
}

}  // namespace

void report_error(const std::string& what) {
  const auto process = launched_process();
  std::string line = cat("chimera: error: ", printable(what), "\n");
  if (process && process->rank > 0) line = cat("rank ", process->rank, ": ", line);
  // At once, so that lines of several processes do not mix.
  static_cast<void>(::write(STDERR_FILENO, line.data(), line.size()));
}

}  // namespace chimera
