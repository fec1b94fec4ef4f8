// chimera train: the training job, readable from top to bottom.
#include <ATen/Parallel.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "chimera/base/error.h"
#include "chimera/base/file.h"
#include "chimera/base/text.h"
#include "chimera/cli/mode.h"
#include "chimera/cli/schedule_options.h"
#include "chimera/cli/terminal.h"
#include "chimera/cli/train_progress.h"
#include "chimera/data/dataset.h"
#include "chimera/model/memory_meter.h"
#include "chimera/runtime/launch.h"
#include "chimera/runtime/tags.h"
#include "chimera/simulate/memory.h"
#include "chimera/simulate/render.h"
#include "chimera/train/config.h"
#include "chimera/train/measure.h"
#include "chimera/train/plan.h"
#include "chimera/train/sample.h"
#include "chimera/train/trainer.h"

namespace chimera {
namespace {

struct TrainOptions {
  std::string config;
  std::vector<std::string> overrides;
  std::string log, save, timeline;
};

// ---- Ctrl-C: the first ends the run after the step, a second at once.

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void handle_interrupt(int) { interrupted = true; }

void catch_interrupt() {
  struct sigaction action = {};
  action.sa_handler = handle_interrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

// ---- the log: one JSON object a step

class StepLog {
 public:
  explicit StepLog(const std::string& path) : path_(path) {
    if (path.empty()) return;
    file_.open(path, std::ios::binary | std::ios::trunc);
    check();
  }

  void write(const StepLine& line) {
    if (path_.empty()) return;
    const nlohmann::ordered_json object = {{"step", line.step},
                                           {"loss", line.loss},
                                           {"gradient_norm", line.gradient_norm},
                                           {"learning_rate", line.learning_rate},
                                           {"tokens_per_s", line.tokens_per_s},
                                           {"bubble_ratio", line.bubble_ratio},
                                           {"predicted_bubble_ratio", line.predicted_bubble_ratio},
                                           {"seconds", line.seconds}};
    file_ << object.dump() << std::endl;
    check();
  }

 private:
  void check() const {
    if (file_) return;
    throw Error(ErrorCode::kIo, cat("cannot write the log '", path_,
                                    "'; is its folder there and writable, and the disk not full?"));
  }

  std::string path_;
  std::ofstream file_;
};

// ---- what the run says before and after

std::string list(const std::vector<int>& numbers) { return join(numbers, ","); }

void introduce(const TrainPlan& plan, std::int64_t windows) {
  const Config& config = plan.config;
  const ModelSpec& model = config.model;
  std::cout << "model     " << model.kind << ", " << model.layers << " layers, hidden "
            << model.hidden << ", " << model.heads << " heads, sequence " << model.sequence << ", "
            << parameter_count(model) << " parameters, " << info(model.dtype).name << "\n"
            << "data      " << config.data.text << ", " << windows << " sequences\n"
            << "pipeline  " << summary(plan.program.source) << "; split " << list(plan.split)
            << "; width " << config.pipeline.width << "; batch " << config.train.batch
            << " in micro-batches of " << config.pipeline.micro_batch << "\n"
            << std::endl;
}

std::string megabytes(const std::vector<double>& bytes) {
  std::vector<std::string> words;
  for (const double count : bytes) {
    std::ostringstream word;
    word << std::fixed << std::setprecision(1) << count / 1e6;
    words.push_back(word.str());
  }
  return join(words, ",");
}

struct Outcome {
  std::vector<StepLine> lines;
  StepReport drawn;             // the last step; of an asynchronous run one in its middle
  std::vector<int> peak_stash;  // by rank
  std::vector<double> peak_bytes;
  std::vector<std::vector<Level>> memory;  // of the drawn step
  NamedTensors weights;
};

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

// ---- the timeline as a file

// The levels as times from the step's start.
std::vector<std::vector<Level>> from(double origin_s, std::vector<std::vector<Level>> memory) {
  for (auto& levels : memory) {
    for (Level& level : levels) level.time_s = std::max(0.0, level.time_s - origin_s);
  }
  return memory;
}

// Predicted over measured, of the first group: a page, or trace events where the name ends so.
void write_timeline(const std::string& path, const TrainPlan& plan, const Outcome& outcome) {
  const Timeline measured = first_group(outcome.drawn.timeline, plan.workers());
  auto memory = from(outcome.drawn.origin_s, outcome.memory);
  memory.resize(static_cast<std::size_t>(plan.workers()));
  Timeline expected = predicted(plan.proved(), measured);
  if (plan.asynchronous) expected = from_origin(middle_step(expected, plan.cut.micros));
  std::vector<Track> tracks;
  if (!plan.asynchronous) {
    tracks.push_back({"predicted", expected, memory_levels(plan.program, expected, plan.memory)});
  } else {
    tracks.push_back({"predicted", expected});
  }
  tracks.push_back({"measured", measured, std::move(memory)});
  const Placement& placement = plan.program.source.placement;
  write_file(path, path.ends_with(".json")
                       ? draw_trace(tracks, placement)
                       : draw_html(tracks, placement, summary(plan.program.source)));
}

// ---- the run

class Run {
 public:
  // Memory over time is noted only where someone will look at it: it costs time.
  Run(const TrainPlan& plan, const Dataset& dataset, StepLog& log, bool samples_memory)
      : plan_(plan),
        samples_memory_(samples_memory),
        dataset_(dataset),
        log_(log),
        progress_(plan.config.train.steps, is_terminal(), terminal_columns()) {
    const auto ranks = static_cast<std::size_t>(plan.ranks());
    outcome_.peak_stash.resize(ranks);
    outcome_.peak_bytes.resize(ranks);
    outcome_.memory.resize(ranks);
  }

  Outcome train() {
    const CheckedOptions options{.limit_s = plan_.config.pipeline.limit_s,
                                 .describe = describe_tag};
    try {
      launch_local(plan_.ranks(), options, [this](Transport& transport) { run_rank(transport); });
    } catch (...) {
      progress_.finish();
      throw;
    }
    progress_.finish();
    return std::move(outcome_);
  }

 private:
  void run_rank(Transport& transport) {
    at::set_num_threads(plan_.config.pipeline.threads);
    const auto rank = static_cast<std::size_t>(transport.rank());
    const auto account = std::make_shared<Account>();
    const AccountScope scope(account);
    Trainer trainer(plan_, dataset_, transport);
    account->reset_peak();
    for (std::int64_t step = 0; !trainer.done(); ++step) {
      if (samples_memory_) account->start_sampling();
      StepReports reports = trainer.step([] { return interrupted.load(); });
      if (samples_memory_ && is_drawn(step)) outcome_.memory[rank] = account->stop_sampling();
      if (rank != 0) continue;
      for (StepReport& report : reports) record(report);
    }
    outcome_.peak_stash[rank] = trainer.peak_stash();
    outcome_.peak_bytes[rank] = static_cast<double>(account->peak_bytes());
    NamedTensors weights = trainer.gather_weights();
    if (transport.rank() == 0) outcome_.weights = std::move(weights);
  }

  // The last step so far; of an asynchronous run, whose last steps drain it, one in its middle.
  [[nodiscard]] bool is_drawn(std::int64_t step) const {
    return !plan_.asynchronous || step <= plan_.config.train.steps / 2;
  }

  [[nodiscard]] double predicted_bubble_ratio(const Timeline& step) const {
    const Timeline expected = predicted(plan_.proved(), step);
    return step_bubble_ratio(
        plan_.asynchronous ? middle_step(expected, plan_.cut.micros) : expected,
        plan_.asynchronous);
  }

  void record(StepReport& report) {
    const TrainConfig& config = plan_.config.train;
    const double tokens = static_cast<double>(config.batch) * plan_.config.model.sequence;
    const StepLine line{.step = report.step + 1,
                        .loss = report.loss,
                        .gradient_norm = report.gradient_norm,
                        .learning_rate = report.learning_rate,
                        .tokens_per_s = tokens / report.seconds,
                        .bubble_ratio = step_bubble_ratio(report.timeline, plan_.asynchronous),
                        .predicted_bubble_ratio = predicted_bubble_ratio(report.timeline),
                        .seconds = report.seconds};
    outcome_.lines.push_back(line);
    if (is_drawn(report.step)) outcome_.drawn = std::move(report);
    log_.write(line);
    progress_.show(line);
  }

  const TrainPlan& plan_;
  bool samples_memory_;
  const Dataset& dataset_;
  StepLog& log_;
  TrainProgress progress_;
  Outcome outcome_;  // each rank writes its own element; the rest is rank 0's
};

// Outputs would replace what the run reads, or each other.
void refuse_overwriting(const TrainOptions& options, const Config& config) {
  std::vector<std::string> inputs = {options.config, config.data.text};
  if (config.pipeline.schedule.starts_with("file:")) {
    inputs.push_back(config.pipeline.schedule.substr(5));
  }
  const auto refuse = [](std::string_view option, const std::string& path, const char* what) {
    throw Error(ErrorCode::kUsage, cat(option, " is '", path, "', ", what, "; name another file"));
  };
  for (const auto& [option, path] :
       {std::pair("--log", options.log), std::pair("--timeline", options.timeline)}) {
    for (const std::string& input : inputs) {
      std::error_code error;
      if (!path.empty() && std::filesystem::equivalent(path, input, error)) {
        refuse(option, path, "which the run reads");
      }
    }
  }
  if (!options.log.empty() && options.log == options.timeline) {
    refuse("--timeline", options.timeline, "which is the log, too");
  }
}

// Before the run, not after it.
void check_timeline_name(const std::string& path) {
  if (path.empty()) return;
  if (!path.ends_with(".html") && !path.ends_with(".json")) {
    throw Error(ErrorCode::kUsage, cat("--timeline is '", path,
                                       "'; expected a name that ends in .html (a page) or "
                                       ".json (trace events)"));
  }
  check_writable(path);
}

int train(const TrainOptions& options) {
  install_memory_meter();
  const Config config = load_config(options.config, options.overrides);
  if (config.data.text.empty()) {
    throw Error(ErrorCode::kUsage, "data.text is empty; expected the path of a text file");
  }
  const auto tokenizer = make_tokenizer(config.data.tokenizer);
  TokenFile tokens = open_text(config.data.text, *tokenizer);
  // The data first: it bounds the batch, and so what the plan may take.
  const TextDataset dataset(
      std::move(tokens),
      {.sequence = config.model.sequence, .batch = config.train.batch, .seed = config.train.seed});
  const TrainPlan plan = make_plan(config, dataset.vocabulary());
  refuse_overwriting(options, config);
  StepLog log(options.log);
  if (!options.save.empty()) prepare_folder(options.save);
  check_timeline_name(options.timeline);
  introduce(plan, dataset.windows());
  catch_interrupt();
  const Outcome outcome = Run(plan, dataset, log, !options.timeline.empty()).train();
  if (outcome.lines.back().step < config.train.steps) {
    std::cout << "stopped after step " << outcome.lines.back().step << " as asked\n";
  }
  summarise(plan, outcome);
  if (!options.timeline.empty()) {
    write_timeline(options.timeline, plan, outcome);
    std::cout << "\ntimeline written to " << options.timeline << "\n";
  }
  if (!options.save.empty()) {
    save_model(options.save, plan.config, outcome.weights);
    std::cout << "\nsaved to " << options.save << "\n";
  }
  return kOk;
}

}  // namespace

RunMode add_train(CLI::App& app) {
  const auto options = std::make_shared<TrainOptions>();
  app.add_option("CONFIG", options->config, "Configuration file (TOML)")->required();
  app.add_option("--set", options->overrides,
                 "section.key=value, over the file's; may be given several times")
      ->allow_extra_args(false);
  app.add_option("--log", options->log, "Write one JSON object a step to this file");
  app.add_option("--save", options->save, "Write the weights and configuration to this folder");
  app.add_option("--timeline", options->timeline,
                 "Write the last step, predicted and measured, to FILE: .html a page, .json trace "
                 "events")
      ->type_name("FILE");
  app.footer("Keys of the configuration, with defaults:\n" + config_help() +
             "\nExample:\n  chimera train examples/demo.toml --set pipeline.schedule=1f1b "
             "--set pipeline.stages=2\nCtrl-C ends the run cleanly after the step under way "
             "(asynchronous schedules: once what is under way has come through).");
  return [options] { return train(*options); };
}

}  // namespace chimera
