#include "chimera/plan/layout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "chimera/plan/testing.h"

namespace chimera {
namespace {

Layout layout_on(const Placement& placement, std::vector<int> split, int width = 1) {
  Layout layout;
  layout.placement = placement;
  layout.width = width;
  layout.recomputed.assign(split.size(), 0);
  layout.split = std::move(split);
  return layout;
}

// Hops of 10 us and 1 GB/s: a megabyte takes a millisecond.
constexpr Link kRoundHop{1e-5, 1e9};

// Four ranks, 8 MB: each has quarters of 2 MB.
TEST(AllReduces, TakeWhatIsReckonedByHand) {
  EXPECT_DOUBLE_EQ(rabenseifner_s(kRoundHop, 4, 8e6), 0.01204);        // 4 x 10 us + 6 x 2 ms
  EXPECT_DOUBLE_EQ(ring_s(kRoundHop, 4, 8e6), 0.01206);                // 6 x (10 us + 2 ms)
  EXPECT_DOUBLE_EQ(recursive_doubling_s(kRoundHop, 4, 8e6), 0.01602);  // 2 x (10 us + 8 ms)
  EXPECT_DOUBLE_EQ(rabenseifner_s(kRoundHop, 16, 8e6), 0.01508);       // 8 x 10 us + 15 ms
  EXPECT_DOUBLE_EQ(ring_s(kRoundHop, 16, 8e6), 0.0153);                // 30 x (10 us + 0.5 ms)
  EXPECT_DOUBLE_EQ(recursive_doubling_s(kRoundHop, 16, 8e6), 0.03204);
}

// No power of two: hops are not whole, as in the paper.
TEST(AllReduces, OfSixRanks) {
  EXPECT_DOUBLE_EQ(ring_s(kRoundHop, 6, 6e6), 0.0101);  // 10 x (10 us + 1 ms)
  EXPECT_NEAR(rabenseifner_s(kRoundHop, 6, 6e6), 5.1699250e-5 + 0.01, 1e-12);
  EXPECT_NEAR(recursive_doubling_s(kRoundHop, 6, 6e6), 2.5849625 * 0.00601, 1e-9);
}

TEST(AllReduces, OfOneRankTakeNoTime) {
  EXPECT_EQ(rabenseifner_s(kRoundHop, 1, 8e6), 0);
  EXPECT_EQ(ring_s(kRoundHop, 1, 8e6), 0);
  EXPECT_EQ(recursive_doubling_s(kRoundHop, 1, 8e6), 0);
}

// Both send as few bytes as can be; the ring has more hops from four ranks on.
TEST(AllReduces, DifferInLatencyAndInBytes) {
  for (const int ranks : {2, 4, 8, 64, 1024}) {
    const Link free{0, 1e9}, wide{1e-5, 1e30};
    EXPECT_DOUBLE_EQ(ring_s(free, ranks, 8e6), rabenseifner_s(free, ranks, 8e6));
    EXPECT_LT(rabenseifner_s(free, ranks, 8e6), 2 * 8e-3);
    EXPECT_GE(recursive_doubling_s(free, ranks, 8e6), rabenseifner_s(free, ranks, 8e6));
    EXPECT_NEAR(ring_s(wide, ranks, 8), 2e-5 * (ranks - 1), 1e-12);
    EXPECT_NEAR(rabenseifner_s(wide, ranks, 8), 2e-5 * std::log2(ranks), 1e-12);
    EXPECT_NEAR(recursive_doubling_s(wide, ranks, 8), 1e-5 * std::log2(ranks), 1e-12);
  }
}

TEST(LayoutCosts, AreSumsOverTheLayersOfEachStage) {
  const Profile profile = test_profile(6);
  const Machine machine = test_machine(4, 0);
  const Costs costs = layout_costs(profile, machine, layout_on(Placement::linear(2), {2, 4}));
  const auto forward = [&](const char* name) { return profile.kind(name).at(1).forward_s; };
  EXPECT_NEAR(costs.forward_s[0], forward("embedding") + 2 * forward("block"), 1e-12);
  EXPECT_NEAR(costs.forward_s[1], 4 * forward("block") + forward("head"), 1e-12);
  EXPECT_DOUBLE_EQ(costs.boundary_bytes[0], profile.kind("block").at(1).output_bytes);
  EXPECT_EQ(costs.reduce_s, std::vector<double>(2, 0)) << "one replica of each";
}

TEST(LayoutCosts, ReduceOverAllReplicasOfAStage) {
  const Profile profile = test_profile(4);
  const Machine machine = test_machine(16, 0);
  const Costs costs = layout_costs(profile, machine, layout_on(Placement::opposite(2), {2, 2}, 4));
  const double bytes =
      profile.kind("embedding").gradient_bytes + 2 * profile.kind("block").gradient_bytes;
  EXPECT_DOUBLE_EQ(costs.reduce_s[0], rabenseifner_s(machine.between.reduce, 8, bytes));
}

TEST(LayoutCosts, StartEachAllReduceOnceHoweverItIsDone) {
  const Profile profile = test_profile(4);
  Machine machine = test_machine(16, 0);
  machine.reduce_start_s = 0.25;
  const auto seconds = [&](AllReduce by, int width) {
    machine.reduce_by = by;
    const Layout layout = layout_on(Placement::opposite(2), {2, 2}, width);
    return layout_costs(profile, machine, layout).reduce_s[0];
  };
  const Link& hop = machine.between.reduce;
  const double bytes =
      profile.kind("embedding").gradient_bytes + 2 * profile.kind("block").gradient_bytes;
  EXPECT_DOUBLE_EQ(seconds(AllReduce::kRabenseifner, 4), 0.25 + rabenseifner_s(hop, 8, bytes));
  EXPECT_DOUBLE_EQ(seconds(AllReduce::kRing, 4), 0.25 + ring_s(hop, 8, bytes));
  EXPECT_DOUBLE_EQ(seconds(AllReduce::kRecursiveDoubling, 4),
                   0.25 + recursive_doubling_s(hop, 8, bytes));
  const Layout alone = layout_on(Placement::linear(2), {2, 2});
  EXPECT_EQ(layout_costs(profile, machine, alone).reduce_s, std::vector<double>(2, 0));
}

TEST(LayoutCosts, UseTheLinksWithinANodeWhereAllGroupsDo) {
  const Profile profile = test_profile(4);
  Machine machine = test_machine(4, 0);
  machine.nodes = 2;
  machine.devices_per_node = 2;
  machine.within.p2p = {1e-6, 1e11};
  const Costs pairs = layout_costs(profile, machine, layout_on(Placement::linear(2), {2, 2}, 2));
  EXPECT_EQ(pairs.link_of({0, 1}), machine.within.p2p);
  const Costs four = layout_costs(profile, machine, layout_on(Placement::linear(4), {1, 1, 1, 1}));
  EXPECT_EQ(four.link_of({0, 1}), machine.within.p2p);
  EXPECT_EQ(four.link_of({1, 2}), machine.between.p2p);
  machine.nodes = 3;
  const Costs three = layout_costs(profile, machine, layout_on(Placement::linear(3), {1, 1, 2}, 2));
  EXPECT_EQ(three.link_of({0, 1}), machine.between.p2p) << "ranks 3 and 4 are on two nodes";
}

// sail-sg/zero-bubble-pipeline-parallelism#36: a V placement has embedding and head on one worker.
TEST(LayoutMemory, CountsEmbeddingAndHeadWhereTheyMeet) {
  Profile profile = test_profile(8);
  for (LayerKind& kind : profile.kinds) {
    if (kind.name == "block") continue;
    kind.weight_bytes = kind.gradient_bytes = 1e9;  // a vocabulary much larger than the width
    kind.optimizer_bytes = 2e9;
  }
  const auto held = [&](const Layout& layout) {
    const MemoryModel memory = layout_memory(profile, layout);
    return memory.weights[0] + memory.gradients[0] + memory.optimizer[0];
  };
  const Layout linear = layout_on(Placement::linear(4), {2, 2, 2, 2});
  const Layout v = layout_on(Placement({{0, 1, 2, 3, 3, 2, 1, 0}}), std::vector<int>(8, 1));
  EXPECT_NEAR(held(v) - held(linear), 4e9, 1e-6 * 4e9);
}

TEST(LayoutMemory, HoldsWhatIsSharedOnce) {
  Profile profile = test_profile(4);
  const Layout both = layout_on(Placement::opposite(2), {2, 2});
  const double apart = layout_memory(profile, both).weights[0];
  profile.shared_parameters = 4'000'000;
  EXPECT_NEAR(layout_memory(profile, both).weights[0], apart - 4.0 * 4'000'000, 1);
  const Layout linear = layout_on(Placement::linear(2), {2, 2});
  profile.shared_parameters = 0;
  const double first = layout_memory(profile, linear).weights[0];
  profile.shared_parameters = 4'000'000;
  EXPECT_DOUBLE_EQ(layout_memory(profile, linear).weights[0], first);
}

TEST(LayoutLimits, AreThoseOfTheLeastDeviceInAnyGroup) {
  Machine machine = test_machine(8, 0);
  machine.memory_bytes = {10e6, 10e6, 6e6, 10e6, 10e6, 9e6, 10e6, 10e6};
  const std::vector<double> limits =
      layout_limits(machine, layout_on(Placement::linear(4), {1, 1, 1, 1}, 2));
  EXPECT_EQ(limits, (std::vector<double>{10e6, 9e6, 6e6, 10e6}));
}

}  // namespace
}  // namespace chimera
