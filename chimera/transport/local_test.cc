// What is the local transport's alone; the rest is in transport_contract_test.cc.
#include "chimera/transport/local.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <latch>
#include <thread>
#include <vector>

#include "chimera/base/error.h"

namespace chimera {
namespace {

constexpr double kPatience = 60;

Buffer view(std::vector<float>& values) {
  return {DType::kFloat32, reinterpret_cast<std::byte*>(values.data()), values.size()};
}

TEST(Local, HandsOverAHundredMegabytesWithoutCopying) {
  LocalWorld world(2);
  const auto sender = world.transport(0), receiver = world.transport(1);
  Message message = make_message(DType::kUInt8, {100'000'000});
  const std::byte* data = message.data;
  const std::weak_ptr<void> watch = message.owner;
  sender->send(std::move(message), 1, 1);
  std::optional<Message> received = receiver->recv(0, 1, 0);
  ASSERT_TRUE(received);
  EXPECT_EQ(received->data, data);
  EXPECT_EQ(watch.use_count(), 1);  // the receiver is the only owner
  received.reset();
  EXPECT_TRUE(watch.expired());
}

TEST(Local, FreesMessagesThatNobodyReceived) {
  std::weak_ptr<void> watch;
  {
    LocalWorld world(2);
    Message message = make_message(DType::kUInt8, {10});
    watch = message.owner;
    world.transport(0)->send(std::move(message), 1, 1);
  }
  EXPECT_TRUE(watch.expired());
}

TEST(Local, TellsWhyItWasAborted) {
  LocalWorld world(2);
  const auto transport = world.transport(0);
  EXPECT_EQ(world.aborted(), "");
  transport->abort("first");
  transport->abort("second");
  EXPECT_EQ(world.aborted(), "first");
}

// One thread plays both ranks: the sum gets done though nobody waits for it.
TEST(Local, SumsInTheBackground) {
  LocalWorld world(2);
  const auto first = world.transport(0), second = world.transport(1);
  std::vector<float> a(500000, 1), b(500000, 2);
  const std::array members = {0, 1};
  const auto sum_a = first->all_reduce_sum(view(a), members, 1);
  const auto sum_b = second->all_reduce_sum(view(b), members, 1);
  while (!sum_a->wait(0)) std::this_thread::yield();  // wait(0) adds up nothing itself
  EXPECT_TRUE(sum_b->wait(0));
  EXPECT_EQ(std::ranges::count(a, 3.0F), 500000);
  EXPECT_EQ(a, b);
}

// A member may free its buffer when its Reduction is gone, whatever the others are doing: the
// sanitizers see any later touch.
TEST(Local, LeavesTheBuffersOfMembersThatLeftAlone) {
  constexpr int kRanks = 8;
  for (int round = 0; round < 20; ++round) {
    LocalWorld world(kRanks);
    std::latch begun(kRanks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        const std::array members = {0, 1, 2, 3, 4, 5, 6, 7};
        const auto transport = world.transport(rank);
        std::vector<float> values(200000, 1);
        const auto sum = transport->all_reduce_sum(view(values), members, 1);
        begun.arrive_and_wait();
        if (rank == round % kRanks) return transport->abort("left");
        if (rank % 3 == 0) return;
        try {
          (void)sum->wait(kPatience);
        } catch (const Error& error) {
          EXPECT_STREQ(error.what(), "left");
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

TEST(Local, IgnoresAMemberThatLeftBeforeTheOthersCame) {
  LocalWorld world(2);
  const auto first = world.transport(0), second = world.transport(1);
  const std::array members = {0, 1};
  {
    std::vector<float> gone = {1};
    (void)first->all_reduce_sum(view(gone), members, 1);
  }
  std::vector<float> values = {1};
  const auto sum = second->all_reduce_sum(view(values), members, 1);
  EXPECT_FALSE(sum->wait(0.01));
  EXPECT_EQ(values.front(), 1);
}

// A message that is not the awaited one must not end the wait, nor hide the one that is.
TEST(Local, WakesForTheAwaitedSenderOnly) {
  LocalWorld world(3);
  std::thread receiver([&] {
    const auto transport = world.transport(2);
    for (Tag i = 0; i < 500; ++i) {
      EXPECT_TRUE(transport->recv(1, i, kPatience));
      EXPECT_TRUE(transport->recv(0, i, kPatience));
    }
  });
  std::vector<std::thread> senders;
  for (int rank = 0; rank < 2; ++rank) {
    senders.emplace_back([&, rank] {
      const auto transport = world.transport(rank);
      for (Tag i = 0; i < 500; ++i) transport->send(make_message(DType::kUInt8, {1}), 2, i);
    });
  }
  for (std::thread& sender : senders) sender.join();
  receiver.join();
}

}  // namespace
}  // namespace chimera
