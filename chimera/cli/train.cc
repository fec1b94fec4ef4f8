// chimera train: the training job, readable from top to bottom.
#include <ATen/Parallel.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "chimera/base/error.h"
#include "chimera/base/file.h"
#include "chimera/base/text.h"
#include "chimera/cli/mode.h"
#include "chimera/cli/terminal.h"
#include "chimera/cli/train_progress.h"
#include "chimera/cli/train_summary.h"
#include "chimera/data/dataset.h"
#include "chimera/model/memory_meter.h"
#include "chimera/runtime/launch.h"
#include "chimera/runtime/tags.h"
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
  if (const auto schedule = schedule_file(config.pipeline)) inputs.push_back(*schedule);
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
