#include "chimera/cli/train_run.h"

#include <ATen/Parallel.h>

#include <memory>
#include <utility>

#include "chimera/cli/terminal.h"
#include "chimera/cli/train_interrupt.h"
#include "chimera/model/memory_meter.h"
#include "chimera/runtime/tags.h"
#include "chimera/simulate/measure.h"

namespace chimera {
namespace {

// What a rank tells at the end of its run.
struct RankOutcome {
  int peak_stash = 0;
  double peak_bytes = 0;
  std::vector<Level> memory;  // of the drawn step, in rank 0's time
};

void send(Transport& transport, const RankOutcome& own) {
  Message message = make_message(DType::kFloat64, {2 + 2 * std::ssize(own.memory)});
  auto* number = reinterpret_cast<double*>(message.data);
  *number++ = own.peak_stash;
  *number++ = own.peak_bytes;
  for (const Level& level : own.memory) {
    *number++ = level.time_s;
    *number++ = level.bytes;
  }
  transport.send(std::move(message), 0, kOutcomeTag);
}

RankOutcome recv(Transport& transport, int rank) {
  const Message message = transport.recv(rank, kOutcomeTag, kForever).value();
  const auto* number = reinterpret_cast<const double*>(message.data);
  RankOutcome theirs{static_cast<int>(number[0]), number[1], {}};
  for (std::size_t i = 2; i < message.elements(); i += 2) {
    theirs.memory.push_back({number[i], number[i + 1]});
  }
  return theirs;
}

}  // namespace

Run::Run(const TrainPlan& plan, const Dataset& dataset, StepLog& log, bool samples_memory,
         ResumeOptions resume)
    : plan_(plan),
      dataset_(dataset),
      resume_(std::move(resume)),
      log_(log),
      samples_memory_(samples_memory),
      progress_(plan.config.train.steps, is_terminal(), terminal_columns()) {}

Run::~Run() { progress_.finish(); }

void Run::run_rank(const Rank& rank, TrainerOptions options) {
  Transport& transport = rank.transport;
  at::set_num_threads(plan_.config.pipeline.threads);
  const std::int64_t check_every = plan_.config.train.check_replicas_every;
  const double clock_offset_s = options.clock_offset_s;
  const auto account = std::make_shared<Account>();
  const AccountScope scope(account);
  Trainer trainer(plan_, dataset_, transport, std::move(options));
  RunCheckpoints checkpoints(plan_, transport, trainer, resume_);
  const std::int64_t first = trainer.steps_done();
  if (transport.rank() == 0) first_step_ = first;
  account->reset_peak();
  RankOutcome own;
  for (std::int64_t step = first; !trainer.done(); ++step) {
    if (samples_memory_) account->start_sampling();
    StepReports reports = trainer.step(interrupted);
    if (samples_memory_ && is_drawn(step, first)) own.memory = account->stop_sampling();
    if (check_every > 0 && (step + 1) % check_every == 0) trainer.check_replicas();
    {
      const PhaseScope may_write = rank.long_work();
      checkpoints.after_step();
    }
    if (transport.rank() != 0) continue;
    for (StepReport& report : reports) record(report);
  }
  const PhaseScope writes = rank.long_work();
  checkpoints.finish();
  own.peak_stash = trainer.peak_stash();
  own.peak_bytes = static_cast<double>(account->peak_bytes());
  for (Level& level : own.memory) level.time_s -= clock_offset_s;
  NamedTensors weights = trainer.gather_weights();
  if (transport.rank() != 0) return send(transport, own);
  outcome_.weights = std::move(weights);
  for (int rank = 0; rank < transport.size(); ++rank) {
    RankOutcome outcome = rank == 0 ? std::move(own) : recv(transport, rank);
    outcome_.peak_stash.push_back(outcome.peak_stash);
    outcome_.peak_bytes.push_back(outcome.peak_bytes);
    outcome_.memory.push_back(std::move(outcome.memory));
  }
}

// The last step so far; of an asynchronous run, whose last steps drain it, one in its middle.
bool Run::is_drawn(std::int64_t step, std::int64_t first) const {
  return !plan_.asynchronous || step <= (first + plan_.config.train.steps) / 2;
}

double Run::predicted_bubble_ratio(const Timeline& step) const {
  const Timeline expected = predicted(plan_.proved(), step);
  return step_bubble_ratio(plan_.asynchronous ? middle_step(expected, plan_.cut.micros) : expected,
                           plan_.asynchronous);
}

void Run::record(StepReport& report) {
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
  if (is_drawn(report.step, first_step_)) outcome_.drawn = std::move(report);
  log_.write(line);
  progress_.show(line);
}

}  // namespace chimera
