// chimera show: a schedule drawn, or printed in the exchange form.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "chimera/base/error.h"
#include "chimera/base/file.h"
#include "chimera/base/text.h"
#include "chimera/cli/mode.h"
#include "chimera/cli/schedule_options.h"
#include "chimera/cli/terminal.h"
#include "chimera/schedule/csv_form.h"
#include "chimera/schedule/text_form.h"
#include "chimera/simulate/render.h"
#include "chimera/simulate/simulate.h"

namespace chimera {
namespace {

constexpr std::array<std::string_view, 6> kFormats = {"timeline", "text", "csv",
                                                      "svg",      "html", "trace"};

struct ShowOptions {
  ScheduleOptions schedule;
  DurationOptions durations;
  std::string format = "timeline";
  WidthOption width;
  std::string output;
};

std::string draw(const ShowOptions& options, const Schedule& schedule, const Timeline& timeline) {
  const std::vector<Track> tracks = {{"predicted", timeline}};
  if (options.format == "html") return draw_html(tracks, schedule.placement, summary(schedule));
  if (options.format == "trace") return draw_trace(tracks, schedule.placement);
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
  if (options.format == "csv") {
    deliver(print_csv(schedule), options.output);
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
         "'svg' draws the same as a picture; 'html' as a page to zoom and to hover over, with\n"
         "nothing to load from elsewhere; 'trace' as JSON for chrome://tracing and Perfetto; "
         "'text'\n"
         "is the exchange form, in which durations play no part, and 'csv' that of\n"
         "torch.distributed.pipelining, for schedules of one pipe. Times are in seconds, or in "
         "any\n"
         "one unit, which html and trace call seconds.\n"
         "In a timeline F0 is the forward and B0 the backward of micro-batch 0; lower case marks\n"
         "pipes that run up the workers; dots are bubbles. Colours only on a terminal, and not\n"
         "where NO_COLOR is set.\n"
         "\nExamples:\n"
         "  chimera show chimera --stages 4 --micros 4\n"
         "  chimera show chimera --stages 4 --micros 8 --backward 1\n"
         "  chimera show 1f1b --stages 8 --micros 16 --format svg -o 1f1b.svg\n"
         "  chimera show chimera --stages 4 --micros 8 --format html -o chimera.html\n"
         "  chimera show gpipe --stages 4 --micros 4 --format text > gpipe.txt\n"
         "  chimera show 1f1b --stages 4 --micros 8 --format csv -o 1f1b.csv";
}

}  // namespace

RunMode add_show(CLI::App& app) {
  const auto options = std::make_shared<ShowOptions>();
  options->schedule.add(app);
  options->durations.add(app);
  app.add_option("--format", options->format,
                 "timeline, text, csv, svg, html or trace (default timeline)")
      ->type_name("FORMAT");
  options->width.add(app);
  app.add_option("-o,--output", options->output,
                 "Write to FILE instead of standard output, whole or not at all")
      ->type_name("FILE");
  app.footer(show_footer());
  return [options] { return run_show(*options); };
}

}  // namespace chimera
