#include "chimera/train/layer_times.h"

#include <ATen/Parallel.h>
#include <time.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

#include "chimera/base/check.h"
#include "chimera/base/clock.h"
#include "chimera/base/random.h"
#include "chimera/job/model_profile.h"
#include "chimera/model/memory_meter.h"
#include "chimera/model/torch_stage.h"
#include "chimera/train/adamw.h"

namespace chimera {
namespace {

// Under way at a time: with the probe's blocks about as many activations as a worker of 1F1B or
// Chimera holds. How far they fit into the caches is part of the time.
constexpr int kMicros = 2;
constexpr int kPasses = 2;  // of each size in a round
constexpr int kWarmUpRounds = 2;
// So little that the weights stay what they are.
constexpr double kLearningRate = 1e-9;
constexpr Tag kBarrierTag = 1, kTimesTag = 2;
constexpr std::size_t kFirst = 0, kOne = 1, kMore = 2, kLast = 3;  // the probe's stages

// As many blocks as a stage of the run has, but not so many that the probe outgrows the run.
int probe_blocks(const Config& config) {
  return std::clamp(config.model.layers / config.pipeline.stages, 2, 4);
}

ModelSpec probe_model(const Config& config) {
  ModelSpec model = config.model;
  model.layers = 3 + probe_blocks(config);
  model.tied = false;  // the same operations, and each stage steps what is its own
  return model;
}

Batch random_batch(const ModelSpec& model, int sequences) {
  const RandomStream stream(1, 2, 3);
  const at::Tensor text = at::empty({sequences, model.sequence + 1}, at::kLong);
  for (std::int64_t i = 0; i < text.numel(); ++i) {
    text.data_ptr<std::int64_t>()[i] =
        static_cast<std::int64_t>(stream.uniform(static_cast<std::uint64_t>(i)) * model.vocabulary);
  }
  Batch batch{.tokens = text.narrow(1, 0, model.sequence).contiguous(),
              .targets = text.narrow(1, 1, model.sequence).contiguous(),
              .loss_scale = 1.0 / (static_cast<double>(sequences) * model.sequence)};
  batch.samples.resize(static_cast<std::size_t>(sequences));
  std::iota(batch.samples.begin(), batch.samples.end(), 0);
  return batch;
}

// Times of one thing, one a repetition.
using Times = std::vector<double>;

// What the calling thread has used of a core. Where it computes alone (pipeline.threads 1) that is
// the time that an action takes, but for what other programs take away meanwhile; with helpers it
// is not, and the clock on the wall is read.
double work_s() {
  if (at::get_num_threads() > 1) return now_s();
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

template <class Act>
auto timed(Times& times, const Act& act) {
  const double began_s = work_s();
  auto result = act();
  times.push_back(work_s() - began_s);
  return result;
}

struct StageSamples {
  Times forward, kept_forward, recompute, backward;
};
using SizeSamples = std::array<StageSamples, kProbeStages>;
struct InputSamples {
  Times whole, input;
};

ProbeTimes probe_times(const StageSamples& samples) {
  return {timing_of(samples.forward), timing_of(samples.kept_forward), timing_of(samples.recompute),
          timing_of(samples.backward)};
}

double input_part(const InputSamples& samples) {
  const double whole = timing_of(samples.whole).typical_s;
  return whole > 0 ? std::clamp(timing_of(samples.input).typical_s / whole, 0.0, 1.0) : 0;
}

// One rank's small model.
class Probe {
 public:
  explicit Probe(const Config& config)
      : model_(probe_model(config)),
        split_{1, 1, probe_blocks(config), 1},
        clips_(config.train.clip > 0),
        store_(config.train.seed, model_.dtype) {
    for (int stage = 0; stage < std::ssize(split_); ++stage) {
      stages_.push_back(std::make_unique<TorchStage>(model_, split_, stage, store_,
                                                     [this](int) { return *batch_; }));
    }
    optimizer_ = std::make_unique<AdamW>(store_, config.train.weight_decay);
    store_.zero_gradients();
  }

  // Micro-batches go through all stages and back, once as they are and once with recompute.
  void pass(int sequences) {
    use(sequences);
    SizeSamples& samples = samples_[sequences];
    for (auto& stage : stages_) stage->begin_step({.seed = 1});
    for (int pass = 0; pass < kPasses; ++pass) {
      for (const bool recomputed : {false, true}) {
        for (int micro = 0; micro < kMicros; ++micro) forward(micro, recomputed, samples);
        for (int micro = 0; micro < kMicros; ++micro) backward(micro, recomputed, samples);
      }
    }
  }

  // The gradient of the input alone, beside that of all.
  void split_backward(int sequences) {
    use(sequences);
    const int begin = 3, end = begin + split_[kMore];  // the blocks of the third stage
    time_parts({begin, end}, block_parts_[sequences]);
    time_parts({model_.head_layer(), model_.head_layer() + 1}, head_parts_[sequences]);
  }

  // In the trainer's order: each pass over all parameters before the next. `exchange` is done where
  // the trainer waits for the others.
  void step(const std::function<void()>& exchange) {
    std::array<double, kProbeStages> seconds{};
    const auto each = [&](const auto& act) {
      for (std::size_t stage = 0; stage < kProbeStages; ++stage) {
        const double began_s = work_s();
        act(static_cast<int>(stage));
        seconds[stage] += work_s() - began_s;
      }
    };
    each([&](int stage) { take_norms(stage); });
    exchange();
    if (clips_) each([&](int stage) { scale(stage); });
    each([&](int stage) { optimizer_->step(kLearningRate, stage); });
    each([&](int stage) { store_.zero_gradients(stage); });
    for (std::size_t stage = 0; stage < kProbeStages; ++stage) {
      steps_[stage].push_back(seconds[stage]);
    }
  }

  void forget() {
    samples_.clear();
    block_parts_.clear();
    head_parts_.clear();
    for (Times& times : steps_) times.clear();
  }

  [[nodiscard]] LayerTimes result() const {
    LayerTimes times;
    times.blocks = split_[kMore];
    for (const auto& [sequences, samples] : samples_) {
      SizeTimes& size = times.sizes.emplace_back();
      size.sequences = sequences;
      std::transform(samples.begin(), samples.end(), size.stages.begin(), probe_times);
      size.block_input_part = input_part(block_parts_.at(sequences));
      size.head_input_part = input_part(head_parts_.at(sequences));
    }
    std::transform(steps_.begin(), steps_.end(), times.steps.begin(), timing_of);
    return times;
  }

 private:
  void use(int sequences) {
    auto& batch = batches_[sequences];
    if (!batch) batch = std::make_unique<Batch>(random_batch(model_, sequences));
    batch_ = batch.get();
  }

  void forward(int micro, bool recomputed, SizeSamples& samples) {
    Message message;
    for (std::size_t i = 0; i < kProbeStages; ++i) {
      Times& times = recomputed ? samples[i].kept_forward : samples[i].forward;
      message = timed(times, [&] {
        return stages_[i]->forward(micro, std::move(message), {.recomputed = recomputed});
      });
    }
  }

  void backward(int micro, bool recomputed, SizeSamples& samples) {
    Message message;
    for (std::size_t i = kProbeStages; i-- > 0;) {
      if (recomputed) {
        timed(samples[i].recompute, [&] {
          stages_[i]->recompute(micro, 0);
          return 0;
        });
      }
      // After a recompute it finds more in the caches; the backward of a profile is one without.
      Times unused;
      message = timed(recomputed ? unused : samples[i].backward,
                      [&] { return stages_[i]->backward(micro, std::move(message)); });
    }
  }

  // A graph of the layers for new values, and its backward in both ways.
  void time_parts(LayerRange range, InputSamples& samples) {
    const LayerChain chain(model_, range, store_);
    const bool is_head = range.end == model_.layer_count();
    const auto options = at::TensorOptions().dtype(store_.at("wte.weight").use().scalar_type());
    at::Tensor input =
        at::randn({std::ssize(batch_->samples), model_.sequence, model_.hidden}, options);
    input.set_requires_grad(true);
    for (const bool whole : {true, false}) {
      at::Tensor output =
          chain.forward(input, {.training = true, .seed = 1, .samples = batch_->samples});
      if (is_head) {
        const at::Tensor rows = output.view({-1, output.size(-1)});
        output =
            at::cross_entropy_loss(rows.scalar_type() == at::kBFloat16 ? rows.to(at::kFloat) : rows,
                                   batch_->targets.reshape({-1}), {}, at::Reduction::Sum);
      }
      const at::Tensor gradient = at::ones_like(output);
      if (whole) {
        timed(samples.whole, [&] {
          output.backward(gradient);
          return 0;
        });
      } else {
        timed(samples.input, [&] { return torch::autograd::grad({output}, {input}, {gradient}); });
      }
    }
  }

  template <class Act>
  void each_parameter(int stage, const Act& act) const {
    for (const auto& [name, parameter] : store_.parameters()) {
      if (parameter.spec.stages == std::vector<int>{stage}) act(parameter);
    }
  }

  // As trainer.cc takes them.
  void take_norms(int stage) {
    each_parameter(stage, [&](const Parameter& parameter) {
      norm_ += at::linalg_vector_norm(parameter.gradient, 2, at::OptionalIntArrayRef(), false,
                                      at::kDouble)
                   .item<double>();
    });
  }

  void scale(int stage) {
    const at::NoGradGuard no_grad;
    for (const Flat& flat : store_.flats()) {
      at::Tensor gradients = flat.gradients;
      if (flat.stages == std::vector<int>{stage}) gradients.mul_(0.5);
    }
  }

  ModelSpec model_;
  std::vector<int> split_;
  bool clips_;
  ParameterStore store_;
  std::vector<std::unique_ptr<TorchStage>> stages_;
  std::unique_ptr<AdamW> optimizer_;
  std::map<int, std::unique_ptr<Batch>> batches_;
  const Batch* batch_ = nullptr;
  std::map<int, SizeSamples> samples_;
  std::map<int, InputSamples> block_parts_, head_parts_;
  std::array<Times, kProbeStages> steps_;
  double norm_ = 0;
};

// What the ranks say to each other at the end of a step (trainer.cc): sums for all, times for rank
// 0. Once all are there.
class Exchange {
 public:
  Exchange(Transport& transport, const ModelSpec& model)
      : transport_(transport),
        everyone_(all_ranks(transport)),
        sums_(model_parameters(model).size() + 2, 0.0) {}

  void operator()() {
    double vote = 0;
    sum(&vote, 1);
    const double began_s = now_s();
    sum(sums_.data(), sums_.size());
    if (transport_.rank() != 0) {
      transport_.send(make_message(DType::kFloat64, {64, 3}), 0, kTimesTag);
    } else {
      for (int rank = 1; rank < transport_.size(); ++rank) {
        (void)transport_.recv(rank, kTimesTag, kForever);
      }
    }
    times_.push_back(now_s() - began_s);
  }

  void forget() { times_.clear(); }
  [[nodiscard]] Timing result() const { return timing_of(times_); }

 private:
  void sum(double* values, std::size_t count) {
    const Buffer buffer{DType::kFloat64, reinterpret_cast<std::byte*>(values), count};
    finish(*transport_.all_reduce_sum(buffer, everyone_, kBarrierTag));
  }

  Transport& transport_;
  std::vector<int> everyone_;
  std::vector<double> sums_;
  Times times_;
};

// ---- from stages to kinds

double above_zero(double seconds) { return std::max(0.0, seconds); }

// One number of each of the probe's stages, taken apart.
struct Parts {
  double embedding, block, head, stage;
};

Parts parts_of(const LayerTimes& times, const std::function<double(std::size_t)>& stage) {
  const double one = stage(kOne);
  const double block = above_zero((stage(kMore) - one) / (times.blocks - 1));
  return {.embedding = above_zero(stage(kFirst) - one),
          .block = block,
          .head = above_zero(stage(kLast) - one),
          .stage = above_zero(one - block)};
}

LayerKind& kind_of(Profile& profile, std::string_view name) {
  const auto found = std::find_if(profile.kinds.begin(), profile.kinds.end(),
                                  [&](const LayerKind& kind) { return kind.name == name; });
  CHECK(found != profile.kinds.end());
  return *found;
}

}  // namespace

LayerTimes measure_layers(const Config& config, const LayerTimesOptions& options,
                          Transport& transport) {
  at::set_num_threads(config.pipeline.threads);
  const AccountScope scope(std::make_shared<Account>());
  Probe probe(config);
  Exchange exchange(transport, config.model);
  const std::size_t count = options.sizes.size();
  for (int round = -kWarmUpRounds; round < options.rounds; ++round) {
    if (round == 0) probe.forget(), exchange.forget();
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t turn =
          i + static_cast<std::size_t>(transport.rank() + round + kWarmUpRounds);
      probe.pass(options.sizes[turn % count]);
    }
    for (const int sequences : options.sizes) probe.split_backward(sequences);
    probe.step([&] { exchange(); });
  }
  LayerTimes times = probe.result();
  times.exchange = exchange.result();
  return times;
}

void enter_times(const LayerTimes& times, Profile& profile) {
  LayerKind &embedding = kind_of(profile, kEmbedding), &block = kind_of(profile, kBlock),
            &head = kind_of(profile, kHead), &stage = kind_of(profile, kStage);
  for (std::size_t i = 0; i < times.sizes.size(); ++i) {
    const SizeTimes& size = times.sizes[i];
    CHECK(block.points.at(i).sequences == size.sequences);
    const auto enter = [&](double LayerPoint::*member, Timing ProbeTimes::*timing) {
      const Parts parts =
          parts_of(times, [&](std::size_t at) { return (size.stages[at].*timing).typical_s; });
      embedding.points[i].*member = parts.embedding;
      block.points[i].*member = parts.block;
      head.points[i].*member = parts.head;
      stage.points[i].*member = parts.stage;
    };
    enter(&LayerPoint::forward_s, &ProbeTimes::forward);
    enter(&LayerPoint::kept_forward_s, &ProbeTimes::kept_forward);
    enter(&LayerPoint::recompute_s, &ProbeTimes::recompute);
    enter(&LayerPoint::backward_s, &ProbeTimes::backward);
    // The tokens have no gradient; what every stage costs is before its weights can do anything.
    block.points[i].backward_input_s = size.block_input_part * block.points[i].backward_s;
    head.points[i].backward_input_s = size.head_input_part * head.points[i].backward_s;
    stage.points[i].backward_input_s = stage.points[i].backward_s;
  }
  const Parts steps = parts_of(times, [&](std::size_t at) { return times.steps[at].typical_s; });
  embedding.step_s = steps.embedding;
  block.step_s = steps.block;
  head.step_s = steps.head;
  stage.step_s = steps.stage;
  profile.step_s = times.exchange.typical_s;
}

}  // namespace chimera
