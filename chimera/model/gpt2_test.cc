// Parity with a plain PyTorch model: tools/make_gpt2_fixture.py wrote the expected values.
#include "chimera/model/gpt2.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>

#include "chimera/model/safetensors.h"
#include "chimera/model/testing.h"

namespace chimera {
namespace {

constexpr const char* kFixture = "tests/parity/gpt2_tiny.safetensors";

ModelSpec fixture_spec(const SafetensorsFile& file, bool tied) {
  const auto size = [&](const char* key) { return std::stoi(file.metadata().at(key)); };
  return {.layers = size("layers"),
          .hidden = size("hidden"),
          .heads = size("heads"),
          .sequence = size("sequence"),
          .vocabulary = size("vocabulary"),
          .tied = tied,
          .dtype = DType::kFloat64};
}

Batch fixture_batch(const SafetensorsFile& file) {
  Batch batch{file.read("tokens"), file.read("targets"), {}};
  for (int i = 0; i < batch.tokens.size(0); ++i) batch.samples.push_back(i);
  return batch;
}

void set_weights(const SafetensorsFile& file, ParameterStore& store) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, parameter] : store.parameters()) {
    at::Tensor value = parameter.value;
    value.copy_(file.read("weight." + name));
  }
  store.values_changed();
}

class Gpt2Parity : public testing::TestWithParam<bool> {};

TEST_P(Gpt2Parity, LogitsEqualPlainPyTorch) {
  const SafetensorsFile file(kFixture);
  const ModelSpec spec = fixture_spec(file, GetParam());
  ParameterStore store(1, spec.dtype);
  const LayerChain model = whole_model(spec, store);
  set_weights(file, store);
  const at::Tensor logits = model.forward(file.read("tokens"), Pass{});
  const std::string kind = spec.tied ? "tied" : "untied";
  expect_close({{"logits", logits}}, {{"logits", file.read(kind + ".logits")}}, 1e-12);
}

// Reported cases (docs/cases.md): G28.
TEST_P(Gpt2Parity, LossAndEveryGradientEqualPlainPyTorchInEverySplit) {
  const SafetensorsFile file(kFixture);
  const ModelSpec spec = fixture_spec(file, GetParam());
  const std::string kind = spec.tied ? "tied" : "untied";
  std::map<std::string, at::Tensor> expected;
  for (const ParameterSpec& parameter : model_parameters(spec)) {
    expected[parameter.name] = file.read(kind + ".gradient." + parameter.name);
  }
  for (const std::vector<int>& split : std::vector<std::vector<int>>{{2}, {1, 1}}) {
    for (const std::vector<int>& sizes : std::vector<std::vector<int>>{{3}, {1, 2}}) {
      TestPipeline pipeline(spec, split, fixture_batch(file), sizes);
      for (auto& store : pipeline.stores) set_weights(file, *store);
      EXPECT_NEAR(pipeline.step(), file.read(kind + ".loss").item<double>(), 1e-12);
      expect_close(pipeline.gradients(), expected, 1e-12);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Heads, Gpt2Parity, testing::Bool(),
                         [](const auto& head) { return head.param ? "Tied" : "Untied"; });

// A vanishing dropout probability takes the path with explicit probabilities and drops nothing.
TEST(Gpt2, ExplicitAttentionEqualsTheFusedOne) {
  ModelSpec spec = tiny_spec();
  const Batch batch = make_batch(spec, 2);
  TestPipeline fused(spec, {8}, batch, {2});
  spec.dropout = 1e-12;
  TestPipeline explicit_path(spec, {8}, batch, {2});
  EXPECT_NEAR(explicit_path.step(), fused.step(), 1e-11);
  expect_close(explicit_path.gradients(), fused.gradients(), 1e-10);
}

TEST(Gpt2, LogitsDoNotSeeTheFuture) {
  const ModelSpec spec = tiny_spec();
  ParameterStore store(1, spec.dtype);
  const LayerChain model = whole_model(spec, store);
  const at::NoGradGuard no_grad;
  const at::Tensor tokens = make_batch(spec, 1).tokens.clone();
  const at::Tensor before = model.forward(tokens, Pass{});
  tokens.select(1, 10).add_(1).remainder_(spec.vocabulary);
  const at::Tensor after = model.forward(tokens, Pass{});
  EXPECT_TRUE(at::allclose(before.narrow(1, 0, 10), after.narrow(1, 0, 10), 0, 1e-14));
  EXPECT_FALSE(at::allclose(before.select(1, 10), after.select(1, 10), 0, 1e-6));
}

}  // namespace
}  // namespace chimera
