// What the tests of this folder share: small models, a mini-batch, and a pipeline without a
// runtime, which passes each micro-batch through all stages and back. Included by tests alone.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "chimera/base/check.h"
#include "chimera/base/random.h"
#include "chimera/model/torch_stage.h"

namespace chimera {

[[nodiscard]] inline ModelSpec tiny_spec() {
  return {.layers = 8,
          .hidden = 32,
          .heads = 2,
          .sequence = 16,
          .vocabulary = 101,
          .dtype = DType::kFloat64};
}

// `sequences` sequences with next-token targets; sample ids count from 100.
[[nodiscard]] inline Batch make_batch(const ModelSpec& spec, int sequences) {
  const RandomStream stream(5, 6, 7);
  const at::Tensor text = at::empty({sequences, spec.sequence + 1}, at::kLong);
  Batch batch;
  for (std::int64_t i = 0; i < text.numel(); ++i) {
    text.data_ptr<std::int64_t>()[i] =
        static_cast<std::int64_t>(stream.uniform(static_cast<std::uint64_t>(i)) * spec.vocabulary);
  }
  batch.tokens = text.narrow(1, 0, spec.sequence);
  batch.targets = text.narrow(1, 1, spec.sequence);
  for (int i = 0; i < sequences; ++i) batch.samples.push_back(100 + i);
  return batch;
}

[[nodiscard]] inline Batch part_of(const Batch& whole, std::int64_t begin, std::int64_t count) {
  return {whole.tokens.narrow(0, begin, count),
          whole.targets.narrow(0, begin, count),
          {whole.samples.begin() + begin, whole.samples.begin() + begin + count}};
}

// Stages on one store each, or on one store together. `sizes`: sequences of each micro-batch.
struct TestPipeline {
  TestPipeline(const ModelSpec& spec, std::vector<int> split, const Batch& batch,
               std::vector<int> sizes, bool one_store = false, std::uint64_t seed = 1,
               std::optional<int> recomputed_blocks = {})
      : micros(static_cast<int>(sizes.size())) {
    std::vector<Batch> parts;
    std::int64_t begin = 0;
    for (const int size : sizes) {
      parts.push_back(part_of(batch, begin, size));
      begin += size;
    }
    CHECK(begin == batch.tokens.size(0));
    context = {.seed = seed};
    const double loss_scale = 1.0 / static_cast<double>(batch.targets.numel());
    for (int stage = 0; stage < std::ssize(split); ++stage) {
      if (stores.empty() || !one_store) {
        stores.push_back(std::make_unique<ParameterStore>(seed, spec.dtype));
      }
      stages.push_back(std::make_unique<TorchStage>(
          spec, split, stage, *stores.back(),
          [this, parts, loss_scale](int micro) {
            Batch part = parts[static_cast<std::size_t>(micro)];
            part.step = optimizer_step;
            part.loss_scale = loss_scale;
            return part;
          },
          recomputed_blocks));
    }
  }

  void forward(int micro) {
    Message message;
    for (auto& stage : stages) {
      message = stage->forward(micro, std::move(message), {.recomputed = recompute});
    }
    EXPECT_FALSE(message);
  }

  void backward(int micro) {
    Message message;
    for (auto stage = stages.rbegin(); stage != stages.rend(); ++stage) {
      if (recompute) (*stage)->recompute(micro, 0);
      message = (*stage)->backward(micro, std::move(message));
    }
    EXPECT_FALSE(message);
  }

  void begin() {
    for (auto& store : stores) store->zero_gradients();
    for (auto& stage : stages) stage->begin_step(context);
  }

  double step() {
    begin();
    for (int micro = 0; micro < micros; ++micro) forward(micro);
    for (int micro = 0; micro < micros; ++micro) backward(micro);
    return loss();
  }

  double loss() { return stages.back()->take_loss(0, micros); }

  // By name, summed over the stores that hold a copy, as an all-reduce would.
  [[nodiscard]] std::map<std::string, at::Tensor> gradients() const {
    std::map<std::string, at::Tensor> sums;
    for (const auto& store : stores) {
      for (const auto& [name, parameter] : store->parameters()) {
        at::Tensor& sum = sums[name];
        sum = sum.defined() ? sum + parameter.gradient : parameter.gradient.clone();
      }
    }
    return sums;
  }

  int micros;
  std::int64_t optimizer_step = 3;
  bool recompute = false;
  StepContext context;
  std::vector<std::unique_ptr<ParameterStore>> stores;
  std::vector<std::unique_ptr<TorchStage>> stages;
};

// Within `tolerance` of each tensor's largest value, or of one thousandth where that is less.
inline void expect_close(const std::map<std::string, at::Tensor>& got,
                         const std::map<std::string, at::Tensor>& expected, double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [name, value] : expected) {
    const auto found = got.find(name);
    ASSERT_NE(found, got.end()) << name;
    ASSERT_EQ(found->second.sizes(), value.sizes()) << name;
    const double scale = std::max(1e-3, value.abs().max().item<double>());
    EXPECT_LE((found->second - value).abs().max().item<double>(), tolerance * scale) << name;
  }
}

}  // namespace chimera
