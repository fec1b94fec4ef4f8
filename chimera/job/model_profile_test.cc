#include "chimera/job/model_profile.h"

#include <gtest/gtest.h>

#include <tuple>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/generate/generate.h"
#include "chimera/job/memory_plan.h"
#include "chimera/job/vocabulary.h"
#include "chimera/plan/layout.h"
#include "chimera/shape/parameters.h"

namespace chimera {
namespace {

Config config_of(DType dtype, double dropout, bool tied) {
  Config config;
  config.model = {.layers = 6,
                  .hidden = 32,
                  .heads = 4,
                  .sequence = 24,
                  .vocabulary = 301,
                  .dropout = dropout,
                  .tied = tied,
                  .dtype = dtype};
  return config;
}

void expect_same(const StageMemory& got, const StageMemory& expected) {
  EXPECT_EQ(got.weights, expected.weights);
  EXPECT_EQ(got.stash, expected.stash);
  EXPECT_EQ(got.kept, expected.kept);
  EXPECT_EQ(got.forward_work, expected.forward_work);
  EXPECT_EQ(got.kept_forward_work, expected.kept_forward_work);
  EXPECT_EQ(got.recompute_work, expected.recompute_work);
  EXPECT_EQ(got.backward_work, expected.backward_work);
}

// What a worker holds of a shared parameter is taken off in proportion, so within its padding.
void expect_near(const std::vector<double>& got, const std::vector<double>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], expected[i], 1e-3 * expected[i]) << "worker " << i;
  }
}

struct StageCut {
  std::vector<int> split, recomputed;
};

const std::vector<StageCut>& cuts() {
  static const std::vector<StageCut> all = {{{3, 3}, {0, 0}},
                                            {{3, 3}, {3, 3}},
                                            {{3, 3}, {1, 2}},
                                            {{1, 5}, {0, 5}},
                                            {{5, 1}, {2, 1}},
                                            {{1, 2, 2, 1}, {0, 0, 0, 0}},
                                            {{1, 2, 2, 1}, {1, 1, 2, 0}}};
  return all;
}

class Memory : public testing::TestWithParam<std::tuple<DType, double, bool>> {};

TEST_P(Memory, OfALayoutIsThatOfTheWholeStages) {
  const auto [dtype, dropout, tied] = GetParam();
  const Config config = config_of(dtype, dropout, tied);
  const Profile profile = sized_profile(config, {1, 2, 3, 8});
  for (const StageCut& cut : cuts()) {
    for (const char* name : {"chimera", "1f1b"}) {
      for (const int sequences : {1, 2, 3, 8}) {
        SCOPED_TRACE(cat(name, " ", join(cut.split, ","), " R ", join(cut.recomputed, ","), " B ",
                         sequences));
        const int stages = static_cast<int>(cut.split.size());
        const Placement placement = generate(name, {.stages = stages, .micros = stages}).placement;
        const MemoryModel expected =
            memory_model(config, placement, cut.split, cut.recomputed, sequences);
        const MemoryModel got = layout_memory(profile, {.placement = placement,
                                                        .sequences = sequences,
                                                        .split = cut.split,
                                                        .recomputed = cut.recomputed});
        for (std::size_t stage = 0; stage < cut.split.size(); ++stage) {
          SCOPED_TRACE(cat("stage ", stage));
          expect_same(got.stages[stage], expected.stages[stage]);
          if (stage + 1 == cut.split.size()) continue;  // the last one sends none
          EXPECT_EQ(got.stages[stage].activation, expected.stages[stage].activation);
        }
        expect_near(got.weights, expected.weights);
        expect_near(got.gradients, expected.gradients);
        expect_near(got.optimizer, expected.optimizer);
        EXPECT_EQ(got.step_work, expected.step_work);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Memory,
                         testing::Combine(testing::Values(DType::kFloat32, DType::kBFloat16,
                                                          DType::kFloat64),
                                          testing::Values(0.0, 0.1), testing::Bool()));

TEST(ModelProfile, HasAsManyParametersAsTheModel) {
  for (const bool tied : {false, true}) {
    const Config config = config_of(DType::kFloat32, 0, tied);
    EXPECT_EQ(sized_profile(config, {1}).parameters(), parameter_count(config.model));
  }
}

TEST(ModelProfile, IsReadAsItWasPrinted) {
  const Profile profile = sized_profile(config_of(DType::kBFloat16, 0.1, true), {1, 4});
  EXPECT_EQ(parse_profile(print(profile), "test"), profile);
}

TEST(ModelProfile, FitsModelsThatDifferInTheirLayersAlone) {
  Config config = config_of(DType::kFloat32, 0, false);
  const Profile profile = sized_profile(config, {1});
  config.model.layers = 12;
  check_profile(profile, config, "p.toml");
  EXPECT_EQ(with_blocks(profile, 12), sized_profile(config, {1}));
}

TEST(ModelProfile, HasTheVocabularyOfTheTokenizerWhereTheDataSaysIt) {
  Config config = config_of(DType::kFloat32, 0, false);
  config.model.vocabulary = 0;
  EXPECT_THROW(check_profile(sized_profile(config_of(DType::kFloat32, 0, false), {1}), config, "p"),
               Error);
  EXPECT_EQ(with_vocabulary(config).model.vocabulary, 256);  // of bytes
  check_profile(sized_profile(with_vocabulary(config), {1}), config, "p");
}

TEST(ModelProfile, OfAnotherModelIsRefusedWithTheKeyAndBothValues) {
  Config config = config_of(DType::kFloat32, 0, false);
  const Profile profile = sized_profile(config, {1});
  config.pipeline.threads = 3;
  try {
    check_profile(profile, config, "p.toml");
    ADD_FAILURE() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_STREQ(error.what(),
                 "the profile 'p.toml' is of another model: its threads is 1, but the "
                 "configuration's is 3; profile this configuration (chimera profile)");
  }
  EXPECT_EQ(profile.model.at("kind"), "gpt2");  // without the quotes of a text in TOML
}

TEST(ModelProfile, HasTheLayersOfTheModel) {
  const Config config = config_of(DType::kFloat32, 0, false);
  Profile profile = sized_profile(config, {1});
  profile.last.clear();
  EXPECT_THROW(check_profile(profile, config, "p.toml"), Error);
  profile.last = {kHead, kHead};
  EXPECT_THROW(check_profile(profile, config, "p.toml"), Error);
}

}  // namespace
}  // namespace chimera
