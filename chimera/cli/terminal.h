// What standard output is: a terminal or not, how wide, with colours or without.
#pragma once

#include <optional>

#include "chimera/simulate/render.h"

namespace CLI {
class App;
}  // namespace CLI

namespace chimera {

[[nodiscard]] bool is_terminal();
[[nodiscard]] bool wants_colour();  // a terminal, and NO_COLOR (no-color.org) not set
// Of the terminal; else 100.
[[nodiscard]] int terminal_columns();

// --columns, for modes that draw.
struct WidthOption {
  std::optional<int> columns;

  void add(CLI::App& app);
  [[nodiscard]] TextStyle style(bool to_stdout) const;  // throws Error
};

}  // namespace chimera
