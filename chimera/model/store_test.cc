#include "chimera/model/store.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "chimera/model/testing.h"

namespace chimera {
namespace {

// Reported cases (docs/cases.md): G27.
TEST(ParameterStore, InitialValuesDoNotDependOnTheSplit) {
  const ModelSpec spec = tiny_spec();
  ParameterStore whole(7, spec.dtype);
  whole.create(model_parameters(spec));
  for (const std::vector<int>& split : std::vector<std::vector<int>>{{4, 4}, {3, 2, 2, 1}}) {
    for (int stage = 0; stage < std::ssize(split); ++stage) {
      ParameterStore part(7, spec.dtype);
      part.create(stage_parameters(spec, split, stage));
      for (const auto& [name, parameter] : part.parameters()) {
        EXPECT_TRUE(at::equal(parameter.value, whole.at(name).value)) << name;
      }
    }
  }
}

TEST(ParameterStore, InitialValuesHaveGpt2sDeviations) {
  ModelSpec spec = tiny_spec();
  spec.hidden = 128;
  ParameterStore store(7, spec.dtype);
  store.create(model_parameters(spec));
  const auto deviation = [&](const std::string& name) {
    return store.at(name).value.std().item<double>();
  };
  EXPECT_NEAR(deviation("wte.weight"), 0.02, 0.001);
  EXPECT_NEAR(deviation("h.3.attn.c_attn.weight"), 0.02, 0.001);
  EXPECT_NEAR(deviation("h.3.attn.c_proj.weight"), 0.02 / 4, 0.00025);
  EXPECT_NEAR(deviation("h.7.mlp.c_proj.weight"), 0.02 / 4, 0.00025);
  EXPECT_TRUE(at::equal(store.at("ln_f.weight").value, at::ones({128}, at::kDouble)));
  EXPECT_TRUE(at::equal(store.at("ln_f.bias").value, at::zeros({128}, at::kDouble)));
}

// Reported cases (docs/cases.md): G27.
TEST(ParameterStore, InitialValuesDifferByLayerParameterAndSeed) {
  const ModelSpec spec = tiny_spec();
  ParameterStore one(1, spec.dtype), two(2, spec.dtype);
  one.create(model_parameters(spec));
  two.create(model_parameters(spec));
  const auto value = [](const ParameterStore& store, const std::string& name) {
    return store.at(name).value;
  };
  const at::Tensor base = value(one, "h.0.attn.c_proj.weight");
  EXPECT_FALSE(at::equal(base, value(one, "h.1.attn.c_proj.weight")));
  EXPECT_FALSE(at::equal(base, value(two, "h.0.attn.c_proj.weight")));
  EXPECT_FALSE(at::equal(value(one, "wte.weight"), value(one, "lm_head.weight")));
}

TEST(ParameterStore, NarrowTypesBeginWithTheRoundedValues) {
  const ModelSpec spec = tiny_spec();
  ParameterStore wide(7, DType::kFloat64), narrow(7, DType::kFloat32), half(7, DType::kBFloat16);
  for (ParameterStore* store : {&wide, &narrow, &half}) store->create(model_parameters(spec));
  const at::Tensor exact = wide.at("wte.weight").value.detach();
  EXPECT_TRUE(at::equal(narrow.at("wte.weight").value, exact.to(at::kFloat)));
  EXPECT_TRUE(at::equal(half.at("wte.weight").value, exact.to(at::kFloat)));
  EXPECT_TRUE(at::equal(half.at("wte.weight").compute, exact.to(at::kFloat).to(at::kBFloat16)));
}

TEST(ParameterStore, ParametersAreViewsOfOneFlatForEachSetOfStages) {
  ModelSpec spec = tiny_spec();
  spec.tied = true;
  const std::vector<int> split = {3, 2, 2, 1};
  ParameterStore store(7, spec.dtype);
  store.create(stage_parameters(spec, split, 0));
  store.create(stage_parameters(spec, split, 3));
  ASSERT_EQ(store.flats().size(), 3U);  // of stage 0, of stage 3, of both
  for (const auto& [name, parameter] : store.parameters()) {
    EXPECT_EQ(parameter.value.grad().data_ptr(), parameter.gradient.data_ptr()) << name;
    int owners = 0;
    for (const Flat& flat : store.flats()) {
      if (!parameter.gradient.is_alias_of(flat.gradients)) continue;
      ++owners;
      EXPECT_TRUE(parameter.value.is_alias_of(flat.values)) << name;
      EXPECT_EQ(flat.stages, parameter.spec.stages) << name;
      EXPECT_EQ(parameter.value.storage_offset(), parameter.gradient.storage_offset()) << name;
    }
    EXPECT_EQ(owners, 1) << name;
  }
}

TEST(ParameterStore, CreatingAgainKeepsWhatIsThere) {
  const ModelSpec spec = tiny_spec();
  ParameterStore store(7, spec.dtype);
  store.create(model_parameters(spec));
  const void* before = store.at("wte.weight").value.data_ptr();
  const std::size_t flats = store.flats().size();
  store.create(model_parameters(spec));
  EXPECT_EQ(store.at("wte.weight").value.data_ptr(), before);
  EXPECT_EQ(store.flats().size(), flats);
}

}  // namespace
}  // namespace chimera
