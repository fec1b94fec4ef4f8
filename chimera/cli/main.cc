// The program: a table of modes, and the one place where errors end.
#include <fcntl.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/cli/mode.h"
#include "chimera/runtime/report.h"

namespace chimera {
namespace {

constexpr auto kModes = std::to_array<Mode>({
    {"show", "draw a schedule, or print it in the exchange form", add_show},
    {"verify", "prove that a schedule can run and computes a training step", add_verify},
    {"simulate", "predict a schedule's time, bubbles and memory from durations", add_simulate},
    {"compare", "time all schedules at the same work, in one table", add_compare},
    {"profile", "measure what a model's layers and messages cost on this machine", add_profile},
    {"plan", "choose schedule and layout for a model and a machine, and say why", add_plan},
    {"emulate", "execute a plan with stages that wait, and compare with its prediction",
     add_emulate},
#ifdef CHIMERA_TORCH
    {"train", "train a model as a configuration file says", add_train},
    {"sample", "print text from a trained model", add_sample},
#endif
});

constexpr const char* kAbout =
    "Chimera: pipeline-parallel training with pipelines in both directions.\n"
    "A schedule says who computes what, in which order. This program shows it, proves it, times\n"
    "it and runs it.";

constexpr const char* kExamples =
    "Examples:\n"
    "  chimera show chimera --stages 4 --micros 4\n"
    "  chimera show chimera --stages 8 --micros 8 --pairs 2 --format svg -o chimera.svg\n"
    "  chimera verify my_schedule.txt\n"
    "  chimera simulate 1f1b --stages 4 --micros 8 --forward 1 --backward 2 --json\n"
    "  chimera compare --stages 4 --micros 8\n"
#ifdef CHIMERA_TORCH
    "  chimera train examples/demo.toml\n"
#endif
    "\n'chimera MODE --help' tells more of each mode.\n"
    "Exit codes: 0 done; 1 a schedule breaks a rule; 2 wrong use; 3 files or data; 4 a run failed.";

struct Parsed {
  CLI::App* app = nullptr;
  RunMode run;
};

std::vector<Parsed> add_modes(CLI::App& app) {
  std::vector<Parsed> added;
  for (const Mode& mode : kModes) {
    CLI::App* sub = app.add_subcommand(std::string(mode.name), std::string(mode.summary));
    added.push_back({sub, mode.add(*sub)});
  }
  return added;
}

int report(const std::string& what, int code) {
  std::cout.flush();
  report_error(what);
  return code;
}

// Where a standard stream is closed the next file opened would take its place, and its output.
void open_closed_streams() {
  for (int stream = 0; stream <= 2; ++stream) {
    if (::fcntl(stream, F_GETFD) == -1) ::open("/dev/null", O_RDONLY);
  }
}

// The first word decides, before the parser says less about it.
void check_mode(int argc, char** argv) {
  const std::string_view word = argc > 1 ? argv[1] : "";
  if (word.empty() || word.front() == '-') return;
  std::vector<std::string_view> names;
  for (const Mode& mode : kModes) names.push_back(mode.name);
  if (std::find(names.begin(), names.end(), word) != names.end()) return;
  throw Error(ErrorCode::kUsage, unknown_word("mode", word, names) + "; try 'chimera --help'");
}

const CLI::App& chosen(const CLI::App& app) {
  const auto subs = app.get_subcommands();
  return subs.empty() ? app : *subs.front();
}

// Names the first word that the mode does not know, and the option nearest to it.
std::string unexpected_word(const CLI::App& mode) {
  const std::vector<std::string> extras = mode.remaining(true);
  std::vector<std::string> names;
  for (const CLI::Option* option : mode.get_options()) {
    if (option->nonpositional()) names.push_back(option->get_name());
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string word(split(extras.front(), '=').front());
  const std::string near = word.rfind("--", 0) == 0 ? nearest_word(word, views) : "";
  return cat("unexpected '", word, "'", near.empty() ? "" : cat(" (did you mean '", near, "'?)"));
}

// The parser's own words for it, where they say enough.
std::string what_failed(const CLI::App& mode, const CLI::ParseError& error) {
  constexpr std::string_view kConvert = "Could not convert: ";  // and then "--micros = x"
  std::string what = error.what();
  std::replace(what.begin(), what.end(), '\n', ' ');
  if (!mode.remaining(true).empty()) return unexpected_word(mode);
  if (what.rfind(kConvert, 0) != 0) return what;
  return cat("'", what.substr(kConvert.size()), "' is not a number that this option takes");
}

// Help and version are "errors" of the parser with exit code 0.
int end_of_parse(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return app.exit(error);
  const CLI::App& mode = chosen(app);
  const std::string name = &mode == &app ? "" : " " + mode.get_name();
  return report(cat(what_failed(mode, error), "; try 'chimera", name, " --help'"),
                exit_code(ErrorCode::kUsage));
}

// No option means anything by an empty text but those that are about texts.
void refuse_empty_values(const CLI::App& mode) {
  for (const CLI::Option* option : mode.get_options()) {
    const std::string name = option->get_name();
    if (name == "--prompt" || std::ranges::count(option->results(), "") == 0) continue;
    throw Error(ErrorCode::kUsage, cat(name, " is ''; expected a value"));
  }
}

int run_chosen(const std::vector<Parsed>& modes) {
  for (const Parsed& mode : modes) {
    if (mode.app->parsed()) return mode.run();
  }
  return kOk;
}

int run_program(int argc, char** argv) {
  CLI::App app(kAbout, "chimera");
  app.set_version_flag("--version", "chimera " CHIMERA_VERSION, "Print the version and exit");
  app.footer(kExamples);
  app.require_subcommand(1);
  const std::vector<Parsed> modes = add_modes(app);
  if (argc == 1) {
    std::cerr << app.help();
    return exit_code(ErrorCode::kUsage);
  }
  check_mode(argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return end_of_parse(app, error);
  }
  refuse_empty_values(chosen(app));
  const int code = run_chosen(modes);
  if (!std::cout.flush()) {
    throw Error(ErrorCode::kIo, "cannot write to standard output; is the disk full?");
  }
  return code;
}

}  // namespace
}  // namespace chimera

int main(int argc, char** argv) {
  try {
    chimera::open_closed_streams();
    return chimera::run_program(argc, argv);
  } catch (const chimera::Reported& reported) {
    return reported.exit_code;
  } catch (const chimera::Error& error) {
    return chimera::report(error.what(), chimera::exit_code(error.code()));
  } catch (const std::exception& error) {
    return chimera::report(std::string(chimera::first_line(error.what())),
                           chimera::exit_code(chimera::ErrorCode::kCompute));
  }
}
