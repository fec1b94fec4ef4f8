#include "chimera/transport/emulated_links.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "chimera/transport/local.h"

namespace chimera {
namespace {

// A clock that is set by hand and goes on by waiting alone.
class HandClock final : public RankClock {
 public:
  double now_s() override { return time_s; }
  void wait_until(double until_s) override { time_s = std::max(time_s, until_s); }

  double time_s = 0;
};

// Three ranks of one thread: what each sends is there when another asks.
struct Ranks {
  // A message's tag is how long it keeps its channel busy; a sum's, how long it takes.
  EmulatedLinks links{
      3,
      {.message =
           [](int, int, Tag tag, std::size_t) {
             return EmulatedCosts::OfMessage{static_cast<double>(tag), 0.5};
           },
       .sum = [](std::span<const int>, Tag tag, std::size_t) { return static_cast<double>(tag); }}};
  LocalWorld world{3};
  std::array<HandClock, 3> clocks;
  std::vector<std::unique_ptr<Transport>> inner, ranks;

  Ranks() {
    for (std::size_t rank = 0; rank < 3; ++rank) {
      inner.push_back(world.transport(static_cast<int>(rank)));
      ranks.push_back(links.transport(*inner.back(), clocks[rank]));
    }
  }

  void send_at(double time_s, int from, int to, Tag busy) {
    clocks[static_cast<std::size_t>(from)].time_s = time_s;
    ranks[static_cast<std::size_t>(from)]->send(make_message(DType::kUInt8, {1}), to, busy);
  }
  double received_at(double time_s, std::size_t to, int from) {
    clocks[to].time_s = time_s;
    EXPECT_TRUE(ranks[to]->recv(from, 0, kForever).has_value());
    return clocks[to].time_s;
  }
  std::unique_ptr<Reduction> begin_at(double time_s, std::size_t rank, std::vector<int> members,
                                      Tag cost) {
    clocks[rank].time_s = time_s;
    return ranks[rank]->all_reduce_sum({DType::kFloat32, nullptr, 0}, members, cost);
  }
  double waited_at(double time_s, std::size_t rank, Reduction& sum) {
    clocks[rank].time_s = time_s;
    finish(sum);
    EXPECT_LE(sum.done_s(), clocks[rank].time_s);
    return clocks[rank].time_s;
  }
};

TEST(EmulatedLinks, AMessageWaitsForThoseBeforeItOnItsChannelAlone) {
  Ranks all;
  all.send_at(1, 0, 1, 3);  // leaves at 4, arrives at 4.5
  all.send_at(2, 0, 1, 1);  // waits until 4
  all.send_at(2, 0, 2, 1);  // another channel
  all.send_at(9, 0, 1, 1);  // the channel is free
  EXPECT_EQ(all.received_at(0, 1, 0), 4.5);
  EXPECT_EQ(all.received_at(4.5, 1, 0), 5.5);
  EXPECT_EQ(all.received_at(0, 2, 0), 3.5);
  EXPECT_EQ(all.received_at(5.5, 1, 0), 10.5);
}

TEST(EmulatedLinks, AMessageThatHasLongArrivedCostsNoTime) {
  Ranks all;
  all.send_at(1, 0, 1, 3);
  EXPECT_EQ(all.received_at(7, 1, 0), 7);
}

TEST(EmulatedLinks, ALimitedWaitEndsBeforeTheMessageArrives) {
  Ranks all;
  all.send_at(1, 0, 1, 3);
  EXPECT_FALSE(all.ranks[1]->recv(0, 3, 2).has_value());
  EXPECT_EQ(all.clocks[1].time_s, 2);
  EXPECT_TRUE(all.ranks[1]->recv(0, 3, 3).has_value());
  EXPECT_EQ(all.clocks[1].time_s, 4.5);
}

TEST(EmulatedLinks, ASumBeginsWithItsLastMemberAndAfterTheSumsBeforeIt) {
  Ranks all;
  const auto first0 = all.begin_at(1, 0, {0, 1}, 4);
  const auto first1 = all.begin_at(2, 1, {0, 1}, 4);  // ready at 2, ends at 6
  const auto second1 = all.begin_at(3, 1, {1, 2}, 2);
  const auto second2 = all.begin_at(2.5, 2, {1, 2}, 2);  // ready at 3, waits for rank 1
  const auto third2 = all.begin_at(2.5, 2, {2}, 1);      // waits for rank 2
  EXPECT_EQ(all.waited_at(2, 0, *first0), 6);
  EXPECT_EQ(all.waited_at(3, 1, *first1), 6);
  EXPECT_EQ(all.waited_at(6, 1, *second1), 8);
  EXPECT_EQ(all.waited_at(10, 2, *second2), 10);
  EXPECT_EQ(second2->done_s(), 8);
  EXPECT_EQ(all.waited_at(3, 2, *third2), 9);
}

TEST(EmulatedLinks, SumsOfOneTagMatchInOrder) {
  Ranks all;
  const auto first0 = all.begin_at(1, 0, {0, 1}, 2);
  const auto second0 = all.begin_at(5, 0, {0, 1}, 2);
  const auto first1 = all.begin_at(2, 1, {0, 1}, 2);
  const auto second1 = all.begin_at(3, 1, {0, 1}, 2);
  EXPECT_EQ(all.waited_at(0, 0, *first0), 4);
  EXPECT_EQ(all.waited_at(0, 1, *second1), 7);
  EXPECT_EQ(all.waited_at(0, 1, *first1), 4);
  EXPECT_EQ(all.waited_at(0, 0, *second0), 7);
}

}  // namespace
}  // namespace chimera
