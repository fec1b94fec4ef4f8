// chimera train: the training job, readable from top to bottom.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "chimera/base/error.h"
#include "chimera/base/file.h"
#include "chimera/base/heap.h"
#include "chimera/base/host.h"
#include "chimera/base/text.h"
#include "chimera/cli/job_ranks.h"
#include "chimera/cli/mode.h"
#include "chimera/cli/overwriting.h"
#include "chimera/cli/restarts.h"
#include "chimera/cli/train_auto.h"
#include "chimera/cli/train_data.h"
#include "chimera/cli/train_interrupt.h"
#include "chimera/cli/train_log.h"
#include "chimera/cli/train_resume.h"
#include "chimera/cli/train_run.h"
#include "chimera/cli/train_summary.h"
#include "chimera/job/config.h"
#include "chimera/job/train_plan.h"
#include "chimera/model/memory_meter.h"
#include "chimera/runtime/agreement.h"
#include "chimera/runtime/clock_offset.h"
#include "chimera/runtime/faults.h"
#include "chimera/runtime/launch.h"
#include "chimera/runtime/launched_process.h"
#include "chimera/schedule/text_form.h"
#include "chimera/train/row_parts.h"
#include "chimera/train/sample.h"
#include "chimera/train/trainer.h"

namespace chimera {
namespace {

struct TrainOptions {
  std::string config;
  std::vector<std::string> overrides;
  std::string log, save, timeline;
  std::string resume;
  std::string fault;
  int restarts = 0;
  std::string launch;
  AutoOptions planning;
};

// ---- what is refused before the start

// Outputs must replace neither what the run reads, nor each other.
void check_outputs(const TrainOptions& options, const Config& config) {
  std::vector<std::string> inputs = options.planning.inputs.files(options.config, &config);
  inputs.push_back(config.data.text);
  if (const auto schedule = schedule_file(config.pipeline)) inputs.push_back(*schedule);
  refuse_overwriting("--log", options.log, inputs);
  refuse_overwriting("--timeline", options.timeline, inputs);
  if (!options.log.empty() && options.log == options.timeline) {
    throw Error(ErrorCode::kUsage, cat("--timeline is '", options.timeline,
                                       "', which is the log, too; name another file"));
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

// Of the process that writes them.
void prepare_outputs(const TrainOptions& options, const Config& config) {
  check_outputs(options, config);
  if (!options.save.empty()) prepare_folder(options.save);
  check_timeline_name(options.timeline);
}

// ---- what the process of rank 0 says and writes

void show_steps(const TrainOptions& options, const TrainPlan& plan, const Outcome& outcome) {
  if (outcome.lines.back().step < plan.config.train.steps) {
    std::cout << "stopped after step " << outcome.lines.back().step << " as asked\n";
  }
  summarise(plan, outcome);
  if (!options.timeline.empty()) {
    write_timeline(options.timeline, plan, outcome);
    std::cout << "\ntimeline written to " << options.timeline << "\n";
  }
}

void finish(const TrainOptions& options, const TrainPlan& plan, const Outcome& outcome) {
  if (outcome.lines.empty()) {  // gone on from the checkpoint of the last step
    std::cout << "all steps are done already\n";
  } else {
    show_steps(options, plan, outcome);
  }
  if (!options.save.empty()) {
    save_model(options.save, plan.config, outcome.weights);
    std::cout << "\nsaved to " << options.save << "\n";
  }
}

// ---- faults on purpose (--fault)

std::optional<Fault> fault_of(const TrainOptions& options) {
  if (options.fault.empty()) return {};
  return parse_fault(options.fault);
}

DataIdentity data_identity(const DataSummary& data) { return {data.fingerprint, data.windows}; }

LaunchOptions launch_options(const Config& config, const std::optional<Fault>& fault) {
  LaunchOptions launch{.limit_s = config.limits.seconds,
                       .startup_limit_s = config.limits.startup_seconds,
                       .bind = config.pipeline.bind,
                       .harm = {}};
  if (fault && std::holds_alternative<FaultPlan>(*fault)) launch.harm = std::get<FaultPlan>(*fault);
  return launch;
}

// What is to happen before each action of a rank.
std::function<void(const Action&)> before_actions(const Rank& rank, const TrainPlan& plan,
                                                  const std::optional<Fault>& fault) {
  if (!fault || !std::holds_alternative<ActionFault>(*fault)) return rank.on_action;
  FaultRange range{.actions = {}, .steps = static_cast<int>(plan.config.train.steps)};
  const RowParts parts(plan.program, plan.cut.micros);
  for (int other = 0; other < plan.ranks(); ++other) {
    range.actions.push_back(static_cast<int>(parts.part(other % plan.workers(), 0).size()));
  }
  const auto deed = at_action(settle(std::get<ActionFault>(*fault), range), rank.transport.rank());
  return [note = rank.on_action, deed](const Action& action) {
    note(action);
    if (deed) deed(action);
  };
}

// ---- one process, a thread each rank

void train_in_threads(const TrainOptions& options, const Config& config) {
  const auto fault = fault_of(options);
  const TextDataset dataset = open_data(config);  // first: it bounds the batch
  const TrainPlan plan = make_plan(config, dataset.vocabulary());
  prepare_outputs(options, config);
  StepLog log(options.log, !options.resume.empty());
  introduce(plan, dataset.windows(), "");
  Outcome outcome;
  {
    Run run(plan, dataset, log, !options.timeline.empty(),
            {options.resume, data_identity(summary(dataset))});
    launch_threads(plan.ranks(), launch_options(config, fault), [&](const Rank& rank) {
      run.run_rank(rank, {.on_action = before_actions(rank, plan, fault)});
    });
    outcome = run.take_outcome();
  }
  finish(options, plan, outcome);
}

// ---- many processes, a rank each

// What must be the same everywhere before a plan can be made, and after.
Facts facts_of(const TrainOptions& options, const Config& config) {
  Facts facts = {{"version", CHIMERA_VERSION}, {"--resume", options.resume}};
  for (const KeyValue& key : values(config)) {
    facts.emplace_back(cat(key.section, ".", key.name), key.value);
  }
  return facts;
}

Facts facts_of(const TrainPlan& plan) {
  return {{"program", digest(print(plan.program.source))},
          {"split", join(plan.split, ",")},
          {"recompute", join(plan.recomputed, ",")}};
}

void check_ranks(const TrainPlan& plan, int processes) {
  if (plan.ranks() == processes) return;
  throw Error(ErrorCode::kUsage, cat("the run has ", plan.ranks(), " ranks (", plan.workers(),
                                     " workers x width ", plan.config.pipeline.width, "), but ",
                                     processes, processes == 1 ? " process was" : " processes were",
                                     " started; start as many, as with mpirun -n ", plan.ranks(),
                                     ", or change pipeline.stages or pipeline.width"));
}

bool reads_data(const TrainPlan& plan, int rank) {
  const auto stages = plan.program.source.placement.stages_of(rank % plan.workers());
  return std::any_of(stages.begin(), stages.end(), [&](int stage) {
    return stage == 0 || stage + 1 == plan.program.source.stages();
  });
}

std::string process_line(const Rank& rank) {
  return cat(rank.transport.size(), " over MPI; rank 0 on ", host_name(), ", ", rank.cores);
}

void train_in_processes(const TrainOptions& options, const Config& config) {
  const auto fault = fault_of(options);
  launch_process(launch_options(config, fault), [&](const Rank& rank) {
    Transport& transport = rank.transport;
    const bool leads = transport.rank() == 0;
    agree(transport, facts_of(options, config));
    std::optional<TextDataset> text;
    if (leads) text.emplace(open_data(config));
    const DataSummary data = share_summary(transport, text ? summary(*text) : DataSummary{});
    const TrainPlan plan = make_plan(config, data.vocabulary);
    check_ranks(plan, transport.size());
    agree(transport, facts_of(plan));
    if (!leads && reads_data(plan, transport.rank())) {
      text.emplace(open_data(config));
      check_same_text(config, transport.rank(), summary(*text), data);
    }
    if (leads) prepare_outputs(options, config);
    StepLog log(leads ? options.log : "", !options.resume.empty());
    if (leads) introduce(plan, data.windows, process_line(rank));
    const UnreadDataset unread;
    const Dataset& dataset = text ? static_cast<const Dataset&>(*text) : unread;
    std::optional<Run> run(std::in_place, plan, dataset, log, !options.timeline.empty(),
                           ResumeOptions{options.resume, data_identity(data)});
    run->run_rank(rank, {.clock_offset_s = clock_offset_s(transport),
                         .on_action = before_actions(rank, plan, fault)});
    const Outcome outcome = run->take_outcome();
    run.reset();
    const PhaseScope writes = rank.long_work();
    if (leads) finish(options, plan, outcome);
  });
}

// Whether this process is one of several of a job.
bool uses_processes(const PipelineConfig& pipeline) {
  const auto job = job_of_many();
  if (pipeline.transport == "mpi") return true;
  if (pipeline.transport == "local" && job) {
    throw Error(ErrorCode::kUsage,
                cat("pipeline.transport is local, but ", job->launcher, " started ", job->size,
                    " processes, and each would train by itself; set pipeline.transport=mpi, or "
                    "start one process"));
  }
  return job.has_value();
}

// ---- starting again (--restarts)

// The words of this run for a child that does it.
std::vector<std::string> arguments_of(const TrainOptions& options) {
  std::vector<std::string> words = {"train", options.config};
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {name, value});
  };
  for (const std::string& text : options.overrides) add("--set", text);
  add("--log", options.log);
  add("--save", options.save);
  add("--timeline", options.timeline);
  add("--resume", options.resume);
  add("--fault", options.fault);
  return words;
}

int train_with_restarts(const TrainOptions& options, const Config& config) {
  if (const auto process = job_of_many()) {
    throw Error(
        ErrorCode::kUsage,
        cat("--restarts is ", options.restarts, ", but ", process->launcher,
            " started this process, and only who starts all of them can start them again; "
            "use chimera train ... --restarts ",
            options.restarts, " --launch \"", process->launcher, " -n ", process->size, "\""));
  }
  if (config.train.checkpoint_every == 0) {
    throw Error(ErrorCode::kUsage,
                cat("--restarts is ", options.restarts,
                    ", but train.checkpoint_every is 0: there would be nothing to go on from; set "
                    "it to some steps"));
  }
  return run_with_restarts(arguments_of(options), {.restarts = options.restarts,
                                                   .launch = options.launch,
                                                   .checkpoints = config.train.checkpoint_folder});
}

int train(const TrainOptions& options) {
  install_memory_meter();
  keep_freed_memory();
  if (options.restarts > 0 && options.planning.wanted) {
    throw Error(ErrorCode::kUsage,
                "--auto would plan anew at each restart; write the plan first (chimera plan CONFIG "
                "-o plan.toml), and train that with --restarts");
  }
  const Config config =
      auto_planned(load_config(options.config, options.overrides), options.planning);
  if (options.restarts > 0) return train_with_restarts(options, config);
  catch_interrupts();  // from here on: starting may take long
  if (!options.launch.empty()) {
    throw Error(ErrorCode::kUsage,
                "--launch stands without --restarts; start the launcher "
                "yourself, or say how often it may start the run again");
  }
  if (uses_processes(config.pipeline)) {
    train_in_processes(options, config);
  } else {
    train_in_threads(options, config);
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
  options->planning.add(app);
  app.add_option("--log", options->log, "Write one JSON object a step to this file");
  app.add_option("--save", options->save, "Write the weights and configuration to this folder");
  app.add_option("--resume", options->resume,
                 "Go on from a checkpoint: the folder of its step, or 'latest' of "
                 "train.checkpoint_folder")
      ->type_name("DIR|latest");
  app.add_option(
         "--restarts", options->restarts,
         "When the run fails, start it again from its last good checkpoint, at most K times")
      ->type_name("K")
      ->check(CLI::Range(0, 1'000'000));
  app.add_option("--launch", options->launch,
                 "With --restarts: what starts the processes of a run, as \"mpirun -n 8\"")
      ->type_name("COMMAND");
  app.add_option("--timeline", options->timeline,
                 "Write the last step, predicted and measured, to FILE: .html a page, .json trace "
                 "events")
      ->type_name("FILE");
  app.add_option("--fault", options->fault,
                 "Do harm on purpose, to see what becomes of it: kill@rank=2,action=17, or throw, "
                 "stall, memory; drop@rank=1,message=3, or delay, duplicate, truncate, corrupt, "
                 "reorder; seed=7 chooses what is not said")
      ->type_name("FAULT");
  app.footer("Keys of the configuration, with defaults:\n" + config_help() +
             "\nExample:\n  chimera train examples/demo.toml --set pipeline.schedule=1f1b "
             "--set pipeline.stages=2\nCtrl-C ends the run cleanly after the step under way "
             "(asynchronous schedules: once what is under way has come through).");
  return [options] { return train(*options); };
}

}  // namespace chimera
