#include "chimera/cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/runtime/launched_process.h"

namespace chimera {
namespace {

constexpr int kLeastColumns = 40, kMostColumns = 100'000, kUsualColumns = 100;

}  // namespace

// mpirun gives its processes a terminal of its own, wherever the output goes in the end.
bool is_terminal() { return ::isatty(STDOUT_FILENO) == 1 && !launched_process(); }

bool wants_colour() {
  const char* no_colour = std::getenv("NO_COLOR");
  return is_terminal() && (no_colour == nullptr || *no_colour == '\0');
}

int terminal_columns() {
  winsize size{};
  if (!is_terminal() || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
    return kUsualColumns;
  }
  return size.ws_col;
}

void WidthOption::add(CLI::App& app) {
  app.add_option("--columns", columns,
                 "Widest line of a drawing (default: the terminal's width, else 100)")
      ->type_name("C");
}

TextStyle WidthOption::style(bool to_stdout) const {
  if (columns && (*columns < kLeastColumns || *columns > kMostColumns)) {
    throw Error(ErrorCode::kUsage, cat("--columns is ", *columns, "; expected a number from ",
                                       kLeastColumns, " to ", kMostColumns));
  }
  return {.colour = to_stdout && wants_colour(),
          .columns = columns.value_or(to_stdout ? terminal_columns() : kUsualColumns)};
}

}  // namespace chimera
