#include "chimera/cli/train_summary.h"

#include <algorithm>
#include <iomanip>
#include <iostream>
#include <sstream>
#include <utility>

#include "chimera/base/file.h"
#include "chimera/base/text.h"
#include "chimera/cli/schedule_options.h"
#include "chimera/cli/terminal.h"
#include "chimera/simulate/measure.h"
#include "chimera/simulate/memory.h"
#include "chimera/simulate/render.h"

namespace chimera {
namespace {

std::string list(const std::vector<int>& numbers) { return join(numbers, ","); }

std::string megabytes(const std::vector<double>& bytes) {
  std::vector<std::string> words;
  for (const double count : bytes) {
    std::ostringstream word;
    word << std::fixed << std::setprecision(1) << count / 1e6;
    words.push_back(word.str());
  }
  return join(words, ",");
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

template <class Field>
double median_of(const std::vector<StepLine>& lines, Field field) {
  std::vector<double> values;
  for (const StepLine& line : lines) values.push_back(line.*field);
  return median(std::move(values));
}

void draw(const std::string& title, const Timeline& timeline, double span_s,
          const TrainPlan& plan) {
  std::cout << "\n"
            << title << "\n"
            << draw_text(
                   timeline, plan.program.source.placement,
                   {.colour = wants_colour(), .columns = terminal_columns(), .span_s = span_s});
}

// The rows of one group.
Timeline first_group(const Timeline& timeline, int workers) {
  Timeline group{{timeline.rows.begin(), timeline.rows.begin() + workers}};
  if (!timeline.reductions.empty()) {
    group.reductions.assign(timeline.reductions.begin(), timeline.reductions.begin() + workers);
  }
  return group;
}

// Of the first group, on one scale. In an asynchronous run a step has no timeline of its own to
// predict: it begins in the step before.
void draw_last_step(const TrainPlan& plan, const Outcome& outcome) {
  const Timeline whole = first_group(outcome.drawn.timeline, plan.workers());
  const Timeline measured = compute_part(whole);
  const Timeline expected =
      plan.asynchronous ? Timeline{} : compute_part(predicted(plan.program, whole));
  const double span_s = std::max(makespan(measured), makespan(expected));
  const auto title = [](const char* what, const Timeline& timeline) {
    return cat(what, ", ", static_cast<int>(1000 * makespan(timeline)), " ms");
  };
  draw(title(plan.asynchronous ? "a step as measured" : "last step as measured", measured),
       measured, span_s, plan);
  if (plan.asynchronous) return;
  draw(title("the same as predicted from its mean durations", expected), expected, span_s, plan);
}

// The levels as times from the step's start.
std::vector<std::vector<Level>> from(double origin_s, std::vector<std::vector<Level>> memory) {
  for (auto& levels : memory) {
    for (Level& level : levels) level.time_s = std::max(0.0, level.time_s - origin_s);
  }
  return memory;
}

}  // namespace

void introduce(const TrainPlan& plan, std::int64_t windows, const std::string& processes) {
  const Config& config = plan.config;
  const ModelSpec& model = config.model;
  std::cout << "model     " << model.kind << ", " << model.layers << " layers, hidden "
            << model.hidden << ", " << model.heads << " heads, sequence " << model.sequence << ", "
            << parameter_count(model) << " parameters, " << info(model.dtype).name << "\n"
            << "data      " << config.data.text << ", " << windows << " sequences\n"
            << "pipeline  " << summary(plan.program.source) << "; split " << list(plan.split)
            << "; width " << config.pipeline.width << "; batch " << config.train.batch
            << " in micro-batches of " << config.pipeline.micro_batch << "\n";
  if (!processes.empty()) std::cout << "processes " << processes << "\n";
  std::cout << std::endl;
}

void summarise(const TrainPlan& plan, const Outcome& outcome) {
  const std::vector<StepLine>& lines = outcome.lines;
  double seconds = 0;
  for (const StepLine& line : lines) seconds += line.seconds;
  std::cout << std::fixed << std::setprecision(4) << "\n"
            << "loss " << lines.front().loss << " at step 1, " << lines.back().loss << " at step "
            << lines.back().step << ", in " << std::setprecision(1) << seconds << " s; median "
            << std::setprecision(0) << median_of(lines, &StepLine::tokens_per_s)
            << " tokens/s\nbubble ratio, median over steps: measured " << std::setprecision(3)
            << median_of(lines, &StepLine::bubble_ratio) << ", predicted "
            << median_of(lines, &StepLine::predicted_bubble_ratio)
            << "\nmicro-batches stashed at most, by rank: " << list(outcome.peak_stash)
            << " (bound " << list(plan.verdict.peak_stash) << ")\n"
            << "megabytes held at most, by rank: measured " << megabytes(outcome.peak_bytes)
            << ", predicted " << megabytes(plan.peak_bytes) << "\n";
  draw_last_step(plan, outcome);
}

void write_timeline(const std::string& path, const TrainPlan& plan, const Outcome& outcome) {
  const Timeline measured = first_group(outcome.drawn.timeline, plan.workers());
  auto memory = from(outcome.drawn.origin_s, outcome.memory);
  memory.resize(static_cast<std::size_t>(plan.workers()));
  Timeline expected = predicted(plan.proved(), measured);
  if (plan.asynchronous) expected = from_origin(middle_step(expected, plan.cut.micros));
  std::vector<std::vector<Level>> expected_memory;
  if (!plan.asynchronous) expected_memory = memory_levels(plan.program, expected, plan.memory);
  const std::vector<Track> tracks = {{"predicted", std::move(expected), std::move(expected_memory)},
                                     {"measured", measured, std::move(memory)}};
  const Placement& placement = plan.program.source.placement;
  write_file(path, path.ends_with(".json")
                       ? draw_trace(tracks, placement)
                       : draw_html(tracks, placement, summary(plan.program.source)));
}

}  // namespace chimera
