// The options that name a schedule and say how long computing takes, shared by the modes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chimera/generate/generate.h"
#include "chimera/schedule/lower.h"
#include "chimera/schedule/schedule.h"
#include "chimera/schedule/verify.h"
#include "chimera/simulate/costs.h"

namespace CLI {
class App;
}  // namespace CLI

namespace chimera {

// A schedule that we generate (by name and numbers) or that a file says.
struct ScheduleOptions {
  std::string source;  // a generator's name, a file, or "-"
  std::optional<int> stages, micros, pairs, steps;
  std::string method;  // empty: not given
  bool fused = false;
  std::string recompute = "none";

  void add(CLI::App& app);
  // What of the numbers and words above only a named schedule takes, or empty.
  [[nodiscard]] bool has_numbers() const;
  [[nodiscard]] Schedule load() const;  // throws Error
};

// Seconds, or any other unit that all times are in.
struct DurationOptions {
  std::string forward = "1", backward;  // one number, or one for each stage; default twice forward

  void add(CLI::App& app);
  [[nodiscard]] Costs costs(int stages) const;  // throws Error
};

struct ReduceOption {
  std::string policy = "eager-opt";

  void add(CLI::App& app);
  [[nodiscard]] Program lower(const Schedule& schedule) const;  // throws Error
};

// --recompute, as with_recompute takes it.
void add_recompute_option(CLI::App& app, std::string& which);

// The schedule with the recomputes that `which` asks for: "none", "all", or a 0 or 1 for each
// stage. Throws Error.
[[nodiscard]] Schedule with_recompute(Schedule schedule, std::string_view which);

// Refuses (throws Error) what is not finite and greater than 0, or 0 where `zero` allows it.
void check_time(std::string_view option, double value, bool zero);

// "1.5" or "1,2,2,1": one number for each stage, as check_time wants them. Throws Error.
[[nodiscard]] std::vector<double> for_each_stage(std::string_view option, std::string_view words,
                                                 int stages, bool zero);

// "chimera: 4 stages on 4 workers, 2 pipes, 8 micro-batches"
[[nodiscard]] std::string summary(const Schedule& schedule);

// Says on standard error that the program cannot be timed, and why; returns the exit code.
int refuse(const Program& program, const Verdict& verdict);

// The lines of `chimera MODE --help` that explain NAME and FILE.
[[nodiscard]] std::string schedule_help();

}  // namespace chimera
