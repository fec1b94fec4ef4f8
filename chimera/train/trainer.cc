#include "chimera/train/trainer.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/model/tensor.h"
#include "chimera/runtime/tags.h"
#include "chimera/train/learning_rate.h"

namespace chimera {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();

// The forwards of a row and their messages: what evaluation runs.
Row forward_part(const Row& row) {
  Row part;
  for (const Action& action : row) {
    if (action.op == Op::kForward || action.op == Op::kSendActivation ||
        action.op == Op::kRecvActivation) {
      part.push_back(action);
    }
  }
  return part;
}

}  // namespace

// What all ranks add up at the end of a pass: one sum of doubles.
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

  std::vector<double> values;
};

Trainer::Trainer(const TrainPlan& plan, const Dataset& dataset, Transport& transport,
                 at::Device device)
    : plan_(plan),
      dataset_(dataset),
      transport_(transport),
      seat_{plan.config.pipeline.width, transport.rank() / plan.workers(),
            transport.rank() % plan.workers()},
      store_(plan.config.train.seed, plan.config.model.dtype, device),
      everyone_(static_cast<std::size_t>(plan.ranks())) {
  std::iota(everyone_.begin(), everyone_.end(), 0);
  if (!device.is_cpu() && transport.size() > 1) {
    throw Error(
        ErrorCode::kUsage,
        cat("device ", device.str(), " with ", transport.size(),
            " workers; the local transport adds gradients up on the CPU, use it or one worker"));
  }
  const auto worker = static_cast<std::size_t>(seat_.worker);
  WorkerOptions options{.step = [this] { finish_step(); },
                        .stash_bound = plan.verdict.peak_stash[worker]};
  worker_ =
      std::make_unique<Worker>(plan.program, seat_, make_stages(), transport, std::move(options));
  evaluate_row_ = forward_part(plan.program.rows[worker]);
  optimizer_ = std::make_unique<AdamW>(store_, plan.config.train.weight_decay);
}

Trainer::~Trainer() = default;

Stages Trainer::make_stages() {
  Stages stages;
  for (const int stage : plan_.program.source.placement.stages_of(seat_.worker)) {
    auto made = std::make_unique<TorchStage>(plan_.config.model, plan_.split, stage, store_,
                                             [this](int micro) { return batch_of(micro); });
    stages_.push_back(made.get());
    stages[stage] = std::move(made);
  }
  return stages;
}

Batch Trainer::batch_of(int micro) const {
  const MicroBatch cut =
      plan_.cut.groups[static_cast<std::size_t>(seat_.group)][static_cast<std::size_t>(micro)];
  const std::int64_t first = first_sample_ + cut.first;
  const TokenBatch samples = dataset_.read(first, cut.count);
  const auto tensor = [&](const std::vector<Token>& tokens) {
    return at::tensor(tokens, at::kLong).view({samples.samples, samples.sequence});
  };
  Batch batch{tensor(samples.tokens), tensor(samples.targets), {}};
  batch.samples.resize(static_cast<std::size_t>(cut.count));
  std::iota(batch.samples.begin(), batch.samples.end(), first);
  return batch;
}

void Trainer::begin_pass(bool training, std::int64_t first_sample) {
  first_sample_ = first_sample;
  const double tokens = static_cast<double>(plan_.config.train.batch) * dataset_.sequence();
  const StepContext context{.training = training,
                            .seed = plan_.config.train.seed,
                            .step = step_,
                            .loss_scale = 1 / tokens};
  for (TorchStage* stage : stages_) stage->begin_step(context);
}

StepReport Trainer::step(const std::function<bool()>& wants_stop) {
  wants_stop_ = wants_stop;
  begin_pass(true, step_ * plan_.config.train.batch);
  store_.zero_gradients();
  std::vector<Interval> own = worker_->run_row();
  report_.timeline = gather_timeline(std::move(own));
  ++step_;
  return std::move(report_);
}

double Trainer::evaluate(std::int64_t first_sample) {
  begin_pass(false, first_sample);
  worker_->run_row(evaluate_row_);
  Sums sums(plan_.parameters.size());
  add_losses(sums);
  reduce(sums);
  return sums.loss();
}

// ---- the end of a step

void Trainer::finish_step() {
  const TrainConfig& config = plan_.config.train;
  Sums sums(plan_.parameters.size());
  add_losses(sums);
  add_squares(sums);
  sums.stop_votes() = wants_stop_ && wants_stop_() ? 1 : 0;
  reduce(sums);
  report_ = {.step = step_,
             .loss = sums.loss(),
             .gradient_norm = sums.norm(),
             .learning_rate = learning_rate(config, step_),
             .stop = sums.stop_votes() > 0,
             .timeline = {}};
  if (!std::isfinite(report_.loss) || !std::isfinite(report_.gradient_norm)) {
    throw Error(ErrorCode::kCompute,
                cat("the training diverged: loss ", report_.loss, ", gradient norm ",
                    report_.gradient_norm, "; try a lower train.learning_rate"));
  }
  clip(report_.gradient_norm);
  optimizer_->step(report_.learning_rate);
}

// As torch.nn.utils.clip_grad_norm_ does it, with its epsilon.
void Trainer::clip(double norm) {
  const double limit = plan_.config.train.clip;
  const double scale = limit / (norm + 1e-6);
  if (limit == 0 || scale >= 1) return;
  const at::NoGradGuard no_grad;
  for (const Flat& flat : store_.flats()) flat.gradients.mul_(scale);
}

void Trainer::add_losses(Sums& sums) const {
  for (const TorchStage* stage : stages_) sums.loss() += stage->loss();
}

bool Trainer::speaks_for(const ParameterSpec& parameter) const {
  return plan_.owner(parameter) == transport_.rank();
}

void Trainer::add_squares(Sums& sums) const {
  for (std::size_t i = 0; i < plan_.parameters.size(); ++i) {
    if (!speaks_for(plan_.parameters[i])) continue;
    const at::Tensor& gradient = store_.at(plan_.parameters[i].name).gradient;
    const double norm =
        at::linalg_vector_norm(gradient, 2, at::OptionalIntArrayRef(), false, at::kDouble)
            .item<double>();
    sums.square(i) = norm * norm;
  }
}

void Trainer::reduce(Sums& sums) {
  const Buffer buffer{DType::kFloat64, reinterpret_cast<std::byte*>(sums.values.data()),
                      sums.values.size()};
  const auto reduction = transport_.all_reduce_sum(buffer, everyone_, kStepTag);
  while (!reduction->wait(kForever)) {
  }
}

// ---- gathering on rank 0

Timeline Trainer::gather_timeline(std::vector<Interval> own) {
  if (transport_.rank() != 0) {
    Message message = make_message(DType::kFloat64, {static_cast<std::int64_t>(own.size()), 2});
    auto* times = reinterpret_cast<double*>(message.data);
    for (const Interval& interval : own) {
      *times++ = interval.start_s;
      *times++ = interval.end_s;
    }
    transport_.send(std::move(message), 0, kTimesTag);
    return {};
  }
  Timeline timeline{{std::move(own)}};
  for (int rank = 1; rank < plan_.ranks(); ++rank) {
    const Message message = transport_.recv(rank, kTimesTag, kForever).value();
    const auto* times = reinterpret_cast<const double*>(message.data);
    auto& row = timeline.rows.emplace_back();
    for (const Action& action :
         plan_.program.rows[static_cast<std::size_t>(rank % plan_.workers())]) {
      row.push_back({action, times[0], times[1]});
      times += 2;
    }
  }
  return from_origin(std::move(timeline));
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
