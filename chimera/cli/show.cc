// chimera show: a schedule drawn, or printed in the exchange form.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <iostream>
#include <memory>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/cli/files.h"
#include "chimera/cli/mode.h"
#include "chimera/cli/schedule_options.h"
#include "chimera/cli/terminal.h"
#include "chimera/schedule/text_form.h"
#include "chimera/simulate/render.h"
#include "chimera/simulate/simulate.h"

namespace chimera {
namespace {

constexpr std::array<std::string_view, 3> kFormats = {"timeline", "text", "svg"};

struct ShowOptions {
  ScheduleOptions schedule;
  DurationOptions durations;
  std::string format = "timeline";
  WidthOption width;
  std::string output;
};

void deliver(const std::string& text, const std::string& output) {
  if (output.empty()) {
    std::cout << text;
  } else {
    write_file(output, text);
  }
}

std::string draw(const ShowOptions& options, const Schedule& schedule, const Timeline& timeline) {
  if (options.format == "svg") {
    return draw_svg(timeline, schedule.placement, summary(schedule));
  }
  return draw_text(timeline, schedule.placement, options.width.style(options.output.empty()));
}

int run_show(const ShowOptions& options) {
  if (std::find(kFormats.begin(), kFormats.end(), options.format) == kFormats.end()) {
    throw Error(ErrorCode::kUsage, unknown_word("format", options.format, kFormats));
  }
  const Schedule schedule = options.schedule.load();
  const Costs costs = options.durations.costs(schedule.stages());
  if (options.format == "text") {
    deliver(print(schedule), options.output);
    return kOk;
  }
  const Program program = lower(schedule);
  if (const Verdict verdict = verify(program); !verdict.ok()) return refuse(program, verdict);
  deliver(draw(options, schedule, simulate(program, costs)), options.output);
  return kOk;
}

std::string show_footer() {
  return schedule_help() +
         "\nFormats: 'timeline' draws what each worker does at what time, with the durations "
         "given;\n"
         "'svg' draws the same as a picture; 'text' is the exchange form, in which durations play\n"
         "no part. Times are in seconds, or in any one unit.\n"
         "In a timeline F0 is the forward and B0 the backward of micro-batch 0; lower case marks\n"
         "pipes that run up the workers; dots are bubbles. Colours only on a terminal, and not\n"
         "where NO_COLOR is set.\n"
         "\nExamples:\n"
         "  chimera show chimera --stages 4 --micros 4\n"
         "  chimera show chimera --stages 4 --micros 8 --backward 1\n"
         "  chimera show 1f1b --stages 8 --micros 16 --format svg -o 1f1b.svg\n"
         "  chimera show gpipe --stages 4 --micros 4 --format text > gpipe.txt";
}

}  // namespace

RunMode add_show(CLI::App& app) {
  const auto options = std::make_shared<ShowOptions>();
  options->schedule.add(app);
  options->durations.add(app);
  app.add_option("--format", options->format, "timeline, text or svg (default timeline)")
      ->type_name("FORMAT");
  options->width.add(app);
  app.add_option("-o,--output", options->output,
                 "Write to FILE instead of standard output, whole or not at all")
      ->type_name("FILE");
  app.footer(show_footer());
  return [options] { return run_show(*options); };
}

}  // namespace chimera
