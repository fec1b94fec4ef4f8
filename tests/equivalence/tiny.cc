#include "tests/equivalence/tiny.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "chimera/base/check.h"
#include "chimera/base/error.h"
#include "chimera/base/random.h"
#include "chimera/job/learning_rate.h"
#include "chimera/job/train_plan.h"
#include "chimera/model/layer.h"
#include "chimera/model/memory_meter.h"
#include "chimera/model/store.h"
#include "chimera/runtime/launch.h"
#include "chimera/runtime/tags.h"
#include "chimera/shape/parameters.h"
#include "chimera/train/adamw.h"
#include "chimera/train/trainer.h"

namespace chimera::tiny {
namespace {

// Matrices have weight decay, biases and norms none.
std::vector<torch::optim::OptimizerParamGroup> parameter_groups(const ParameterStore& store,
                                                                double weight_decay) {
  std::vector<at::Tensor> matrices, others;
  for (const auto& [name, parameter] : store.parameters()) {
    (parameter.value.dim() >= 2 ? matrices : others).push_back(parameter.value);
  }
  const auto options = [](double decay) {
    return std::make_unique<torch::optim::AdamWOptions>(
        torch::optim::AdamWOptions(0).weight_decay(decay));
  };
  return {{matrices, options(weight_decay)}, {others, options(0)}};
}

}  // namespace

std::int64_t TinyDataset::tokens(std::int64_t first, int count) const {
  std::int64_t sum = 0;
  for (std::int64_t sample = first; sample < first + count; ++sample) sum += lengths_(sample);
  return sum;
}

TokenBatch TinyDataset::read(std::int64_t first, int count) const {
  const int sequence = lengths_(first);
  TokenBatch batch{count, sequence, {}, {}};
  for (std::int64_t sample = first; sample < first + count; ++sample) {
    const RandomStream random(99, static_cast<std::uint32_t>(sample));
    const auto token = [&](int position) {
      return static_cast<Token>(random.uniform(static_cast<std::uint64_t>(position)) *
                                static_cast<double>(vocabulary_));
    };
    CHECK(lengths_(sample) == sequence);
    for (int position = 0; position < sequence; ++position) {
      batch.tokens.push_back(token(position));
      batch.targets.push_back(token(position + 1));
    }
  }
  return batch;
}

Config tiny_config() {
  Config config;
  config.model = {.layers = 8, .hidden = 16, .heads = 2, .sequence = 8, .vocabulary = 101};
  config.model.dtype = DType::kFloat64;
  config.train = {.steps = 10,
                  .batch = 4,
                  .learning_rate = 1e-2,
                  .warmup_steps = 3,
                  .weight_decay = 0.1,
                  .clip = 1.0,
                  .seed = 5};
  return config;
}

namespace {

TinyDataset tiny_dataset(const Config& config, const Lengths& lengths) {
  return lengths ? TinyDataset(101, lengths) : TinyDataset(101, config.model.sequence);
}

}  // namespace

namespace {

Result train_rank(const TrainPlan& plan, const Dataset& dataset, Transport& transport) {
  at::set_num_threads(1);
  Trainer trainer(plan, dataset, transport);
  Result result;
  while (!trainer.done()) {
    for (const StepReport& report : trainer.step()) {
      if (transport.rank() != 0) continue;
      result.losses.push_back(report.loss);
      result.norms.push_back(report.gradient_norm);
    }
  }
  result.weights = trainer.gather_weights();
  return result;
}

}  // namespace

Result run_chimera(const Config& config, const Lengths& lengths) {
  const TinyDataset dataset = tiny_dataset(config, lengths);
  const TrainPlan plan = make_plan(config, dataset.vocabulary());
  Result result;
  launch_local(plan.ranks(), {.limit_s = 60, .describe = describe_tag}, [&](Transport& transport) {
    Result own = train_rank(plan, dataset, transport);
    if (transport.rank() == 0) result = std::move(own);
  });
  return result;
}

Result run_rank(const Config& config, Transport& transport, const Lengths& lengths) {
  const TinyDataset dataset = tiny_dataset(config, lengths);
  return train_rank(make_plan(config, dataset.vocabulary()), dataset, transport);
}

namespace {

// A whole model and what trains it, one step at a time.
class OneDevice {
 public:
  explicit OneDevice(const Config& config, const Lengths& lengths = {})
      : config_(config),
        dataset_(tiny_dataset(config, lengths)),
        store_(config.train.seed, config.model.dtype),
        model_(whole_model(config.model, store_)),
        optimizer_(parameter_groups(store_, config.train.weight_decay)) {
    at::set_num_threads(1);
    for (const auto& [name, parameter] : store_.parameters())
      parameters_.push_back(parameter.value);
  }

  [[nodiscard]] const ParameterStore& store() const { return store_; }

  // Loss and gradients of the mini-batch of a step, with the weights as they are.
  void compute(std::int64_t step) {
    const int batch = config_.train.batch;
    const std::int64_t first = step * batch, end = first + batch;
    store_.zero_gradients();
    double loss = 0;
    // At once what is of one length: usually the whole mini-batch.
    for (std::int64_t begin = first, next = first; begin < end; begin = next) {
      while (next < end && dataset_.tokens(next, 1) == dataset_.tokens(begin, 1)) ++next;
      loss += backward(step, begin, static_cast<int>(next - begin), dataset_.tokens(first, batch));
    }
    result_.losses.push_back(loss);
    const double limit = config_.train.clip > 0 ? config_.train.clip : 1e300;
    result_.norms.push_back(torch::nn::utils::clip_grad_norm_(parameters_, limit));
  }

  // Of samples of one length: their part of the mean loss over the tokens of the step.
  double backward(std::int64_t step, std::int64_t first, int count, std::int64_t step_tokens) {
    const TokenBatch data = dataset_.read(first, count);
    std::vector<std::int64_t> samples(static_cast<std::size_t>(count));
    std::iota(samples.begin(), samples.end(), first);
    const Pass pass{.training = true, .seed = config_.train.seed, .step = step, .samples = samples};
    const at::Tensor tokens = at::tensor(data.tokens, at::kLong).view({count, data.sequence});
    const at::Tensor logits = model_.forward(tokens, pass);
    const at::Tensor mean =
        at::cross_entropy_loss(logits.flatten(0, 1), at::tensor(data.targets, at::kLong));
    const at::Tensor loss =
        mean * (static_cast<double>(data.targets.size()) / static_cast<double>(step_tokens));
    loss.backward();
    return loss.item<double>();
  }

  void update(std::int64_t step) {
    for (auto& group : optimizer_.param_groups()) {
      group.options().set_lr(learning_rate(config_.train, step));
    }
    optimizer_.step();
  }

  [[nodiscard]] NamedTensors weights() const {
    NamedTensors weights;
    for (const auto& [name, parameter] : store_.parameters()) {
      weights[name] = parameter.value.detach().clone();
    }
    return weights;
  }

  [[nodiscard]] Result result() const {
    Result result = result_;
    result.weights = weights();
    return result;
  }

 private:
  Config config_;
  TinyDataset dataset_;
  ParameterStore store_;
  LayerChain model_;
  torch::optim::AdamW optimizer_;
  std::vector<at::Tensor> parameters_;
  Result result_;
};

}  // namespace

Result run_one_device(const Config& config, const Lengths& lengths) {
  OneDevice device(config, lengths);
  for (std::int64_t step = 0; step < config.train.steps; ++step) {
    device.compute(step);
    device.update(step);
  }
  return device.result();
}

Result run_delayed(const Config& config, const std::vector<int>& split,
                   const std::vector<int>& delay) {
  OneDevice device(config);
  std::vector<NamedTensors> x = {device.weights()};
  for (std::int64_t step = 0; step < config.train.steps; ++step) {
    const at::NoGradGuard no_grad;
    for (int stage = 0; stage < std::ssize(split); ++stage) {
      const std::int64_t version =
          std::max<std::int64_t>(0, step - delay[static_cast<std::size_t>(stage)]);
      for (const ParameterSpec& spec : stage_parameters(config.model, split, stage)) {
        device.store().at(spec.name).value.detach().copy_(
            x[static_cast<std::size_t>(version)].at(spec.name));
      }
    }
    {
      const at::AutoGradMode with_grad(true);
      device.compute(step);
    }
    for (const auto& [name, newest] : x.back()) {
      device.store().at(name).value.detach().copy_(newest);
    }
    device.update(step);
    x.push_back(device.weights());
  }
  return device.result();
}

std::vector<double> measure_peaks(const Config& config) {
  install_memory_meter();
  const TinyDataset dataset(config.model.vocabulary, config.model.sequence);
  const TrainPlan plan = make_plan(config, dataset.vocabulary());
  std::vector<double> peaks(static_cast<std::size_t>(plan.ranks()));
  launch_local(plan.ranks(), {.limit_s = 60, .describe = describe_tag}, [&](Transport& transport) {
    at::set_num_threads(1);
    const auto account = std::make_shared<Account>();
    const AccountScope scope(account);
    Trainer trainer(plan, dataset, transport);
    account->reset_peak();
    while (!trainer.done()) (void)trainer.step();
    peaks[static_cast<std::size_t>(transport.rank())] = static_cast<double>(account->peak_bytes());
  });
  return peaks;
}

void expect_refused(const Config& config, const std::string& says) {
  try {
    (void)make_plan(config, 101);
    ADD_FAILURE() << "not refused: " << says;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(says), std::string::npos)
        << error.what() << "\nexpected: " << says;
  }
}

void expect_equal(const Result& result, const Result& oracle, const std::string& what) {
  constexpr double kTolerance = 1e-10, kLeast = 1e-3;
  ASSERT_EQ(result.losses.size(), oracle.losses.size()) << what;
  for (std::size_t step = 0; step < oracle.losses.size(); ++step) {
    ASSERT_NEAR(result.losses[step], oracle.losses[step], kTolerance * oracle.losses[step])
        << what << ", loss of step " << step;
    ASSERT_NEAR(result.norms[step], oracle.norms[step], kTolerance * oracle.norms[step])
        << what << ", gradient norm of step " << step;
  }
  ASSERT_EQ(result.weights.size(), oracle.weights.size()) << what;
  for (const auto& [name, expected] : oracle.weights) {
    const at::Tensor& weight = result.weights.at(name);
    ASSERT_TRUE(weight.sizes() == expected.sizes()) << what << ", " << name;
    const double largest = expected.abs().max().item<double>();
    const double difference = (weight - expected).abs().max().item<double>();
    ASSERT_LE(difference, kTolerance * std::max(largest, kLeast)) << what << ", " << name;
  }
}

void expect_same_bits(const Result& a, const Result& b, const std::string& what) {
  EXPECT_EQ(a.losses, b.losses) << what;
  EXPECT_EQ(a.norms, b.norms) << what;
  ASSERT_EQ(a.weights.size(), b.weights.size()) << what;
  for (const auto& [name, weight] : a.weights) {
    EXPECT_TRUE(at::equal(weight, b.weights.at(name))) << what << ", " << name;
  }
}

}  // namespace chimera::tiny
