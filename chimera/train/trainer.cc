#include "chimera/train/trainer.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "chimera/base/check.h"
#include "chimera/base/clock.h"
#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/job/learning_rate.h"
#include "chimera/model/tensor.h"
#include "chimera/runtime/tags.h"
#include "chimera/train/replicas.h"

namespace chimera {
// What all ranks add up: one sum of doubles.
struct Trainer::Sums {
  explicit Sums(std::size_t parameters) : values(parameters + 2, 0.0) {}

  double& loss() { return values[values.size() - 2]; }
  double& stop_votes() { return values[values.size() - 1]; }
  double& square(std::size_t parameter) { return values[parameter]; }

  // Added in the order of parameters, so that the norm is bitwise the same in every layout in which
  // the gradients are.
  [[nodiscard]] double norm() const {
    return std::sqrt(std::accumulate(values.begin(), values.end() - 2, 0.0));
  }

  // Valid as long as the sums stay where they are.
  [[nodiscard]] Buffer buffer() {
    return {DType::kFloat64, reinterpret_cast<std::byte*>(values.data()), values.size()};
  }

  std::vector<double> values;
};

struct Trainer::Pending {
  explicit Pending(std::size_t parameters) : sums(parameters) {}

  Sums sums;
  std::unique_ptr<Reduction> reduction;
  StepReport report;
};

Trainer::Trainer(const TrainPlan& plan, const Dataset& dataset, Transport& transport,
                 TrainerOptions options)
    : plan_(plan),
      dataset_(dataset),
      transport_(transport),
      clock_offset_s_(options.clock_offset_s),
      seat_{plan.config.pipeline.width, transport.rank() / plan.workers(),
            transport.rank() % plan.workers()},
      store_(plan.config.train.seed, plan.config.model.dtype, options.device),
      parts_(plan.program, plan.cut.micros),
      everyone_(all_ranks(transport)),
      // The last stage is at most so many micro-batches, and so steps, ahead of the first.
      lag_(plan.asynchronous ? plan.program.source.stages() : 0),
      end_(plan.config.train.steps) {
  if (!options.device.is_cpu() && transport.size() > 1) {
    throw Error(ErrorCode::kUsage,
                cat("device ", options.device.str(), " with ", transport.size(),
                    " workers; gradients are added up on the CPU, use it or one worker"));
  }
  const auto worker = static_cast<std::size_t>(seat_.worker);
  WorkerOptions worker_options{
      .on_action = std::move(options.on_action),
      .step = [this](const Action& action) { step_weights(action); },
      .stash_bound = plan.verdict.peak_stash[worker],
      .bucket_bytes = static_cast<std::size_t>(plan.config.pipeline.bucket_mb * 1e6)};
  worker_ = std::make_unique<Worker>(plan.program, seat_, make_stages(), transport,
                                     std::move(worker_options));
  optimizer_ = std::make_unique<AdamW>(store_, plan.config.train.weight_decay);
}

Trainer::~Trainer() = default;

Stages Trainer::make_stages() {
  Stages stages;
  for (const int stage : plan_.program.source.placement.stages_of(seat_.worker)) {
    auto made = std::make_unique<TorchStage>(
        plan_.config.model, plan_.split, stage, store_,
        [this, reads = stage == 0 || stage + 1 == plan_.program.source.stages()](int micro) {
          return batch_of(micro, reads);
        },
        plan_.recomputed[static_cast<std::size_t>(stage)]);
    stages_.push_back(made.get());
    stages[stage] = std::move(made);
  }
  return stages;
}

// Micro-batches are numbered through the program: through a step, or through a segment.
// The stages between the ends need no tokens, and their processes no text.
Batch Trainer::batch_of(int micro, bool reads_tokens) const {
  const int micros = plan_.cut.micros;
  const std::int64_t steps_ahead = micro / micros;
  const MicroBatch cut =
      plan_.cut
          .groups[static_cast<std::size_t>(seat_.group)][static_cast<std::size_t>(micro % micros)];
  const int size = plan_.config.train.batch;
  const std::int64_t mini_batch = first_sample_ + steps_ahead * size;
  const std::int64_t first = mini_batch + cut.first;
  Batch batch{.step = segment_begin_ + steps_ahead};
  batch.samples.resize(static_cast<std::size_t>(cut.count));
  std::iota(batch.samples.begin(), batch.samples.end(), first);
  if (!reads_tokens) return batch;
  const TokenBatch samples = dataset_.read(first, cut.count);
  const auto tensor = [&](const std::vector<Token>& tokens) {
    return at::tensor(tokens, at::kLong).view({samples.samples, samples.sequence});
  };
  batch.tokens = tensor(samples.tokens);
  batch.targets = tensor(samples.targets);
  batch.loss_scale = 1 / static_cast<double>(dataset_.tokens(mini_batch, size));
  return batch;
}

void Trainer::begin_segment() {
  const std::int64_t every = plan_.config.train.checkpoint_every;
  segment_begin_ = step_;
  if (!plan_.asynchronous) {
    segment_end_ = step_ + 1;
  } else {
    segment_end_ = every > 0 ? std::min(end_, (step_ / every + 1) * every) : end_;
  }
  begin_pass(true, step_ * plan_.config.train.batch);
  store_.zero_gradients();
}

void Trainer::begin_pass(bool training, std::int64_t first_sample) {
  first_sample_ = first_sample;
  const StepContext context{.training = training, .seed = plan_.config.train.seed};
  for (TorchStage* stage : stages_) stage->begin_step(context);
}

// What a worker does in the step under way.
Row Trainer::part_of(int worker) const {
  return parts_.part(worker, step_ - segment_begin_,
                     (segment_end_ - segment_begin_) * plan_.cut.micros);
}

StepReports Trainer::step(const std::function<bool()>& wants_stop) {
  CHECK(!done());
  if (step_began_s_ == 0) step_began_s_ = now_s();
  wants_stop_ = wants_stop;
  if (drained()) begin_segment();
  pending_.emplace_back(plan_.parameters.size());
  const Row part = part_of(seat_.worker);
  std::vector<Interval> own = worker_->run_row(part);
  if (plan_.asynchronous) begin_report();
  Timeline timeline = gather_timeline(std::move(own));
  pending_.back().report.origin_s = first_start(timeline);
  pending_.back().report.timeline = from_origin(std::move(timeline));
  const double ended_s = now_s();
  pending_.back().report.seconds = ended_s - std::exchange(step_began_s_, ended_s);
  ++step_;
  StepReports reports;
  while (!pending_.empty() && (drained() || std::ssize(pending_) > lag_)) {
    reports.push_back(finish_report());
    // No rank is so far ahead that it has begun what is now left out.
    if (reports.back().stop) end_ = std::min(end_, drained() ? step_ : step_ + lag_);
    segment_end_ = std::min(segment_end_, end_);
  }
  return reports;
}

double Trainer::evaluate(std::int64_t first_sample) {
  if (!drained()) {
    throw Error(ErrorCode::kUsage,
                cat("evaluation after step ", step_, " of ", end_,
                    " of an asynchronous schedule, whose pipeline is never empty; evaluate before "
                    "the first step or after the last"));
  }
  begin_pass(false, first_sample);
  worker_->run_row(parts_.forwards(seat_.worker));
  Sums sums(plan_.parameters.size());
  for (TorchStage* stage : stages_) sums.loss() += stage->take_loss(0, plan_.cut.micros);
  finish(*transport_.all_reduce_sum(sums.buffer(), everyone_, kStepTag));
  return sums.loss();
}

// ---- the end of a step

void Trainer::step_weights(const Action& action) {
  if (action.stage == kAllStages) {
    step_all();
  } else {
    step_stage(action.stage);
  }
}

void Trainer::step_all() {
  add_squares(pending_.back().sums, {});
  begin_report();
  Pending& pending = pending_.back();
  finish(*pending.reduction);
  const double norm = pending.sums.norm();
  check_finite({.loss = pending.sums.loss(), .gradient_norm = norm});
  clip(norm);
  optimizer_->step(learning_rate(plan_.config.train, step_));
}

void Trainer::step_stage(int stage) {
  add_squares(pending_.back().sums, stage);
  optimizer_->step(learning_rate(plan_.config.train, step_), stage);
  store_.zero_gradients(stage);
}

void Trainer::begin_report() {
  Pending& pending = pending_.back();
  const int micros = plan_.cut.micros;
  const int first = static_cast<int>(step_ - segment_begin_) * micros;
  for (TorchStage* stage : stages_) pending.sums.loss() += stage->take_loss(first, micros);
  pending.sums.stop_votes() = wants_stop_ && wants_stop_() ? 1 : 0;
  pending.report.step = step_;
  pending.report.learning_rate = learning_rate(plan_.config.train, step_);
  pending.reduction = transport_.all_reduce_sum(pending.sums.buffer(), everyone_, kStepTag);
}

StepReport Trainer::finish_report() {
  Pending& oldest = pending_.front();
  finish(*oldest.reduction);
  StepReport report = std::move(oldest.report);
  report.loss = oldest.sums.loss();
  report.gradient_norm = oldest.sums.norm();
  report.stop = oldest.sums.stop_votes() > 0;
  pending_.pop_front();
  check_finite(report);
  return report;
}

void Trainer::check_finite(const StepReport& report) const {
  if (std::isfinite(report.loss) && std::isfinite(report.gradient_norm)) return;
  throw Error(ErrorCode::kCompute,
              cat("the training diverged: loss ", report.loss, ", gradient norm ",
                  report.gradient_norm, "; try a lower train.learning_rate"));
}

// As torch.nn.utils.clip_grad_norm_ does it, with its epsilon.
void Trainer::clip(double norm) {
  const double limit = plan_.config.train.clip;
  const double scale = limit / (norm + 1e-6);
  if (limit == 0 || scale >= 1) return;
  const at::NoGradGuard no_grad;
  for (const Flat& flat : store_.flats()) flat.gradients.mul_(scale);
}

bool Trainer::speaks_for(const ParameterSpec& parameter) const {
  return plan_.owner(parameter) == transport_.rank();
}

// Of all stages, or of one that shares no parameter.
void Trainer::add_squares(Sums& sums, std::optional<int> stage) const {
  for (std::size_t i = 0; i < plan_.parameters.size(); ++i) {
    if (!speaks_for(plan_.parameters[i])) continue;
    if (stage && plan_.parameters[i].stages != std::vector<int>{*stage}) continue;
    const at::Tensor& gradient = store_.at(plan_.parameters[i].name).gradient;
    const double norm =
        at::linalg_vector_norm(gradient, 2, at::OptionalIntArrayRef(), false, at::kDouble)
            .item<double>();
    sums.square(i) = norm * norm;
  }
}

// ---- state

std::vector<ParameterState> Trainer::state() const {
  std::vector<ParameterState> states;
  for (const AdamW::Moments& moments : optimizer_->moments()) {
    const Parameter& parameter = *moments.parameter;
    states.push_back({&parameter.spec, parameter.value.detach(), moments.first, moments.second});
  }
  return states;
}

void Trainer::resume(std::int64_t step) {
  CHECK(step_ == 0 && segment_end_ == 0);
  step_ = segment_begin_ = segment_end_ = step;
  optimizer_->resume(step);
}

// ---- gathering on rank 0

void Trainer::send_intervals(const std::vector<Interval>& intervals) {
  Message message = make_message(DType::kFloat64, {std::ssize(intervals), 3});
  auto* numbers = reinterpret_cast<double*>(message.data);
  for (const Interval& interval : intervals) {
    *numbers++ = interval.start_s - clock_offset_s_;
    *numbers++ = interval.end_s - clock_offset_s_;
    *numbers++ = interval.action.stage;
  }
  transport_.send(std::move(message), 0, kTimesTag);
}

// Of a reduction; other actions are known from the row.
std::vector<Interval> Trainer::recv_intervals(int rank) {
  const Message message = transport_.recv(rank, kTimesTag, kForever).value();
  const auto* numbers = reinterpret_cast<const double*>(message.data);
  std::vector<Interval> intervals(static_cast<std::size_t>(message.shape[0]));
  for (Interval& interval : intervals) {
    interval.start_s = *numbers++;
    interval.end_s = *numbers++;
    interval.action = {.op = Op::kReduceBegin, .stage = static_cast<std::int16_t>(*numbers++)};
  }
  return intervals;
}

Timeline Trainer::gather_timeline(std::vector<Interval> own) {
  std::vector<Interval> reductions = worker_->take_reductions();
  if (transport_.rank() != 0) {
    send_intervals(own);
    send_intervals(reductions);
    return {};
  }
  Timeline timeline{{std::move(own)}, {std::move(reductions)}};
  for (int rank = 1; rank < plan_.ranks(); ++rank) {
    std::vector<Interval>& row = timeline.rows.emplace_back(recv_intervals(rank));
    const Row part = part_of(rank % plan_.workers());
    CHECK(part.size() == row.size());
    for (std::size_t i = 0; i < row.size(); ++i) row[i].action = part[i];
    timeline.reductions.push_back(recv_intervals(rank));
  }
  return timeline;
}

void Trainer::check_replicas() {
  std::vector<ReplicaDigest> own;
  for (const Flat& flat : store_.flats()) own.push_back({flat.stages, digest_of(flat.values)});
  compare_replicas(transport_, own, step_);
}

NamedTensors Trainer::gather_weights() {
  NamedTensors weights;
  for (const ParameterSpec& parameter : plan_.parameters) {
    const int owner = plan_.owner(parameter);
    if (transport_.rank() == owner && owner != 0) {
      transport_.send(to_message(store_.at(parameter.name).value.detach().cpu().clone()), 0,
                      kWeightsTag);
    } else if (transport_.rank() == 0) {
      weights[parameter.name] =
          owner == 0 ? store_.at(parameter.name).value.detach().cpu().clone()
                     : to_tensor(transport_.recv(owner, kWeightsTag, kForever).value(), at::kCPU);
    }
  }
  return weights;
}

}  // namespace chimera
