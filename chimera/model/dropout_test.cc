#include "chimera/model/dropout.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <vector>

namespace chimera {
namespace {

at::Tensor mask(const std::vector<std::int64_t>& samples, double probability = 0.25,
                std::int64_t step = 4, int layer = 2, DropoutSite site = DropoutSite::kMlpOutput,
                std::int64_t width = 37) {
  const auto sequences = static_cast<std::int64_t>(samples.size());
  const Pass pass{.training = true, .seed = 11, .step = step, .samples = samples};
  return dropout(at::ones({sequences, 5, width}, at::kDouble), probability, layer, site, pass);
}

// Reported cases (docs/cases.md): G25.
TEST(Dropout, MasksDoNotDependOnTheGroupingOfSamples) {
  const at::Tensor together = mask({8, 3, 5});
  EXPECT_TRUE(at::equal(together.narrow(0, 0, 1), mask({8})));
  EXPECT_TRUE(at::equal(together.narrow(0, 1, 2), mask({3, 5})));
}

TEST(Dropout, MasksDifferBySampleStepLayerAndSite) {
  const at::Tensor base = mask({8});
  EXPECT_FALSE(at::equal(base, mask({9})));
  EXPECT_FALSE(at::equal(base, mask({8}, 0.25, 5)));
  EXPECT_FALSE(at::equal(base, mask({8}, 0.25, 4, 3)));
  EXPECT_FALSE(at::equal(base, mask({8}, 0.25, 4, 2, DropoutSite::kAttention)));
}

TEST(Dropout, DropsTheAskedShareAndScalesTheRest) {
  for (const double probability : {0.1, 0.5, 0.9}) {
    const at::Tensor values = mask({1, 2, 3, 4}, probability, 4, 2, DropoutSite::kEmbedding, 5000);
    const at::Tensor kept = values.ne(0);
    EXPECT_NEAR(kept.to(at::kDouble).mean().item<double>(), 1 - probability, 0.005);
    EXPECT_TRUE(at::allclose(values.masked_select(kept),
                             at::full({1}, 1 / (1 - probability), at::kDouble)));
  }
}

TEST(Dropout, ChangesNothingOutsideTrainingOrWithoutAProbability) {
  const at::Tensor input = at::rand({2, 3}, at::kDouble);
  const std::vector<std::int64_t> samples = {0, 1};
  const Pass training{.training = true, .samples = samples};
  EXPECT_TRUE(dropout(input, 0.5, 0, DropoutSite::kEmbedding, Pass{}).is_same(input));
  EXPECT_TRUE(dropout(input, 0, 0, DropoutSite::kEmbedding, training).is_same(input));
}

TEST(Dropout, TakesAnEmptyMicroBatch) { EXPECT_EQ(mask({}).size(0), 0); }

}  // namespace
}  // namespace chimera
