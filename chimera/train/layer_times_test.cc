#include "chimera/train/layer_times.h"

#include <gtest/gtest.h>

#include <array>

#include "chimera/job/model_profile.h"

namespace chimera {
namespace {

// Seconds of one layer of each kind.
struct KindTimes {
  double embedding, block, head, stage;
};

Timing seconds(double typical_s) { return {.typical_s = typical_s, .spread = 0, .times = 1}; }

// What the four stages of the probe take with layers that take so long.
std::array<double, kProbeStages> stages_of(const KindTimes& t, int blocks) {
  const double one = t.stage + t.block;
  return {one + t.embedding, one, t.stage + blocks * t.block, one + t.head};
}

KindTimes times(const KindTimes& kinds, double factor) {
  return {factor * kinds.embedding, factor * kinds.block, factor * kinds.head,
          factor * kinds.stage};
}

constexpr KindTimes kLayers{0.5e-3, 4e-3, 9e-3, 0.25e-3};

// Forward, kept forward, recompute and backward are 1, 2, 3 and 4 times as long, for each sequence.
LayerTimes probe_times(const KindTimes& layers, int blocks) {
  LayerTimes measured;
  measured.blocks = blocks;
  for (const int sequences : {1, 4}) {
    SizeTimes size;
    size.sequences = sequences;
    size.block_input_part = 0.5;
    size.head_input_part = 0.25;
    const std::array<double, kProbeStages> one = stages_of(times(layers, sequences), blocks);
    for (std::size_t i = 0; i < kProbeStages; ++i) {
      size.stages[i] = {.forward = seconds(one[i]),
                        .kept_forward = seconds(2 * one[i]),
                        .recompute = seconds(3 * one[i]),
                        .backward = seconds(4 * one[i])};
    }
    measured.sizes.push_back(size);
  }
  const std::array<double, kProbeStages> steps = stages_of(times(layers, 0.1), blocks);
  for (std::size_t i = 0; i < kProbeStages; ++i) measured.steps[i] = seconds(steps[i]);
  measured.exchange = seconds(0.7e-3);
  return measured;
}

Profile profile_with(const LayerTimes& measured) {
  Config config;
  config.model = {.layers = 6, .hidden = 32, .heads = 4, .sequence = 24, .vocabulary = 301};
  Profile profile = sized_profile(config, {1, 4});
  enter_times(measured, profile);
  return profile;
}

// Two points a kind: of one sequence and of four.
void expect_times(const LayerKind& kind, double one_s, double input_part) {
  ASSERT_EQ(kind.points.size(), 2U);
  for (const LayerPoint& point : kind.points) {
    const double forward = one_s * point.sequences;
    EXPECT_NEAR(point.forward_s, forward, 1e-12) << kind.name;
    EXPECT_NEAR(point.kept_forward_s, 2 * forward, 1e-12) << kind.name;
    EXPECT_NEAR(point.recompute_s, 3 * forward, 1e-12) << kind.name;
    EXPECT_NEAR(point.backward_s, 4 * forward, 1e-12) << kind.name;
    EXPECT_NEAR(point.backward_input_s, input_part * point.backward_s, 1e-12) << kind.name;
  }
  EXPECT_NEAR(kind.step_s, 0.1 * one_s, 1e-12) << kind.name;
}

TEST(LayerTimes, OfStagesAreTakenApartIntoThoseOfKinds) {
  for (const int blocks : {2, 5}) {
    const Profile profile = profile_with(probe_times(kLayers, blocks));
    expect_times(profile.kind(kEmbedding), kLayers.embedding, 0);
    expect_times(profile.kind(kBlock), kLayers.block, 0.5);
    expect_times(profile.kind(kHead), kLayers.head, 0.25);
    expect_times(profile.kind(kStage), kLayers.stage, 1);
    EXPECT_DOUBLE_EQ(profile.step_s, 0.7e-3);
  }
}

// An embedding that is quicker than the noise.
TEST(LayerTimes, ThatComeOutBelowNothingAreNothing) {
  const KindTimes noisy{-0.1e-3, 4e-3, -1e-3, -0.2e-3};
  const Profile profile = profile_with(probe_times(noisy, 3));
  expect_times(profile.kind(kEmbedding), 0, 0);
  expect_times(profile.kind(kBlock), noisy.block, 0.5);
  expect_times(profile.kind(kHead), 0, 0.25);
  expect_times(profile.kind(kStage), 0, 1);
  EXPECT_EQ(parse_profile(print(profile), "printed"), profile);
}

TEST(LayerTimes, LeaveBytesAsTheyWere) {
  const Profile profile = profile_with(probe_times(kLayers, 2));
  Profile sized = profile_with({});
  for (const LayerKind& kind : profile.kinds) {
    const LayerKind& before = sized.kind(kind.name);
    EXPECT_EQ(kind.parameters, before.parameters);
    for (std::size_t i = 0; i < kind.points.size(); ++i) {
      EXPECT_EQ(kind.points[i].stash_bytes, before.points[i].stash_bytes);
      EXPECT_EQ(kind.points[i].output_bytes, before.points[i].output_bytes);
    }
  }
}

}  // namespace
}  // namespace chimera
