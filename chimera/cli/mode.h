// A mode of the program: show, verify, simulate, ... One file a mode; main.cc has the table.
//
// A mode's register function adds its options to a CLI11 subcommand and returns what runs once they
// are parsed. That returns the exit code: 0, or 1 where the answer is "no" (a violation). What goes
// wrong it throws as Error, which main prints.
#pragma once

#include <functional>
#include <string_view>

namespace CLI {
class App;
}  // namespace CLI

namespace chimera {

using RunMode = std::function<int()>;

struct Mode {
  std::string_view name;
  std::string_view summary;  // one line of `chimera --help`
  RunMode (*add)(CLI::App& app) = nullptr;
};

inline constexpr int kOk = 0;
inline constexpr int kViolated = 1;

[[nodiscard]] RunMode add_show(CLI::App& app);
[[nodiscard]] RunMode add_verify(CLI::App& app);
[[nodiscard]] RunMode add_simulate(CLI::App& app);
[[nodiscard]] RunMode add_compare(CLI::App& app);
[[nodiscard]] RunMode add_profile(CLI::App& app);
[[nodiscard]] RunMode add_plan(CLI::App& app);
[[nodiscard]] RunMode add_emulate(CLI::App& app);
[[nodiscard]] RunMode add_train(CLI::App& app);   // needs libtorch
[[nodiscard]] RunMode add_sample(CLI::App& app);  // needs libtorch

}  // namespace chimera
