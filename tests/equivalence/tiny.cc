#include "tests/equivalence/tiny.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "chimera/base/random.h"
#include "chimera/model/layer.h"
#include "chimera/model/store.h"
#include "chimera/runtime/launch.h"
#include "chimera/runtime/tags.h"
#include "chimera/train/adamw.h"
#include "chimera/train/learning_rate.h"
#include "chimera/train/plan.h"
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

TokenBatch TinyDataset::read(std::int64_t first, int count) const {
  TokenBatch batch{count, sequence_, {}, {}};
  for (std::int64_t sample = first; sample < first + count; ++sample) {
    const RandomStream random(99, static_cast<std::uint32_t>(sample));
    const auto token = [&](int position) {
      return static_cast<Token>(random.uniform(static_cast<std::uint64_t>(position)) *
                                static_cast<double>(vocabulary_));
    };
    for (int position = 0; position < sequence_; ++position) {
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

Result run_chimera(const Config& config) {
  const TinyDataset dataset(101, config.model.sequence);
  const TrainPlan plan = make_plan(config, dataset.vocabulary());
  Result result;
  launch_local(plan.ranks(), {.limit_s = 60, .describe = describe_tag}, [&](Transport& transport) {
    at::set_num_threads(1);
    Trainer trainer(plan, dataset, transport);
    while (!trainer.done()) {
      for (const StepReport& report : trainer.step()) {
        if (transport.rank() != 0) continue;
        result.losses.push_back(report.loss);
        result.norms.push_back(report.gradient_norm);
      }
    }
    NamedTensors weights = trainer.gather_weights();
    if (transport.rank() == 0) result.weights = std::move(weights);
  });
  return result;
}

Result run_one_device(const Config& config) {
  const TinyDataset dataset(101, config.model.sequence);
  ParameterStore store(config.train.seed, config.model.dtype);
  const LayerChain model = whole_model(config.model, store);
  torch::optim::AdamW optimizer(parameter_groups(store, config.train.weight_decay));
  std::vector<at::Tensor> parameters;
  for (const auto& [name, parameter] : store.parameters()) parameters.push_back(parameter.value);
  Result result;
  for (std::int64_t step = 0; step < config.train.steps; ++step) {
    const int batch = config.train.batch;
    const TokenBatch data = dataset.read(step * batch, batch);
    std::vector<std::int64_t> samples(static_cast<std::size_t>(batch));
    std::iota(samples.begin(), samples.end(), step * batch);
    const Pass pass{.training = true, .seed = config.train.seed, .step = step, .samples = samples};
    store.zero_gradients();
    const at::Tensor tokens =
        at::tensor(data.tokens, at::kLong).view({batch, config.model.sequence});
    const at::Tensor logits = model.forward(tokens, pass);
    const at::Tensor loss =
        at::cross_entropy_loss(logits.flatten(0, 1), at::tensor(data.targets, at::kLong));
    loss.backward();
    result.losses.push_back(loss.item<double>());
    const double limit = config.train.clip > 0 ? config.train.clip : 1e300;
    result.norms.push_back(torch::nn::utils::clip_grad_norm_(parameters, limit));
    for (auto& group : optimizer.param_groups()) {
      group.options().set_lr(learning_rate(config.train, step));
    }
    optimizer.step();
  }
  for (const auto& [name, parameter] : store.parameters()) {
    result.weights[name] = parameter.value.detach().clone();
  }
  return result;
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
