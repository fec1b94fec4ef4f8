// What every transport does, one suite over all of them. A test is a program that each rank runs,
// as in a job: it shares nothing with the other ranks but the transport, so the ranks may be
// threads or processes. What they are, each program that this file is part of says (contract.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/transport/contract.h"

namespace chimera {
namespace {

constexpr double kLong = kContractLimitSeconds;  // a wait that ends only with a fault

class TransportContract : public testing::TestWithParam<ContractKind> {
 protected:
  void run(int ranks, const RankProgram& program) { GetParam().run(ranks, program); }
};

INSTANTIATE_TEST_SUITE_P(Every, TransportContract, testing::ValuesIn(contract_kinds()),
                         [](const auto& kind) { return kind.param.name; });

template <class T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<double>() {
  return DType::kFloat64;
}
template <>
constexpr DType dtype_of<float>() {
  return DType::kFloat32;
}
template <>
constexpr DType dtype_of<std::uint16_t>() {
  return DType::kBFloat16;
}
template <>
constexpr DType dtype_of<std::int64_t>() {
  return DType::kInt64;
}
template <>
constexpr DType dtype_of<std::int32_t>() {
  return DType::kInt32;
}

template <class T>
Buffer view(std::vector<T>& values) {
  return {dtype_of<T>(), reinterpret_cast<std::byte*>(values.data()), values.size()};
}

Message number(std::int64_t value) {
  Message message = make_message(DType::kInt64, {});
  std::memcpy(message.data, &value, sizeof value);
  return message;
}

std::int64_t number_in(const Message& message) {
  std::int64_t value = 0;
  std::memcpy(&value, message.data, sizeof value);
  return value;
}

Message must_recv(Transport& transport, int from, Tag tag) {
  std::optional<Message> message = transport.recv(from, tag, kLong);
  if (!message) throw Error(ErrorCode::kTimeout, cat("no message ", tag, " from ", from));
  return std::move(*message);
}

void must_wait(Reduction& reduction) {
  if (!reduction.wait(kLong)) throw Error(ErrorCode::kTimeout, "the sum is never done");
}

template <class T>
void sum_now(Transport& transport, std::vector<T>& values, const std::vector<int>& members,
             Tag tag) {
  must_wait(*transport.all_reduce_sum(view(values), members, tag));
}

// Returns on every rank after all have called it.
void barrier(Transport& transport) {
  std::vector<std::int32_t> one = {1};
  sum_now(transport, one, all_ranks(transport), Tag{1} << 60);
}

// The text of the Error (kPeer) that `call` throws.
std::string peer_error(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kPeer) << error.what();
    return error.what();
  }
  return "nothing thrown";
}

// --- messages ---

TEST_P(TransportContract, KnowsRankAndSize) {
  run(3, [](Transport& transport) {
    EXPECT_EQ(transport.size(), 3);
    std::vector<std::int32_t> seen(3);
    seen[static_cast<std::size_t>(transport.rank())] = 1;
    sum_now(transport, seen, {0, 1, 2}, 1);
    EXPECT_EQ(seen, (std::vector<std::int32_t>{1, 1, 1}));
  });
}

TEST_P(TransportContract, DeliversTagTypeShapeAndBytes) {
  run(2, [](Transport& transport) {
    for (std::size_t kind = 0; kind < kDTypes.size(); ++kind) {
      const auto dtype = static_cast<DType>(kind);
      const Tag tag = (Tag{1} << 63) + kind;
      if (transport.rank() == 0) {
        Message message = make_message(dtype, {2, 1, 3});
        for (std::size_t i = 0; i < message.bytes(); ++i) message.data[i] = std::byte(i + kind);
        transport.send(std::move(message), 1, tag);
        continue;
      }
      const Message message = must_recv(transport, 0, tag);
      EXPECT_EQ(message.tag, tag);
      EXPECT_EQ(message.dtype, dtype);
      EXPECT_EQ(message.shape, (std::vector<std::int64_t>{2, 1, 3}));
      for (std::size_t i = 0; i < message.bytes(); ++i) {
        EXPECT_EQ(message.data[i], std::byte(i + kind));
      }
    }
  });
}

TEST_P(TransportContract, DeliversEmptyMessages) {
  run(2, [](Transport& transport) {
    if (transport.rank() == 0) return transport.send(make_message(DType::kFloat32, {4, 0}), 1, 9);
    const Message message = must_recv(transport, 0, 9);
    EXPECT_TRUE(message);
    EXPECT_EQ(message.shape, (std::vector<std::int64_t>{4, 0}));
    EXPECT_EQ(message.bytes(), 0U);
  });
}

// Rank 1 looks only when all messages have been sent.
TEST_P(TransportContract, KeepsManyMessagesOfAChannelInOrder) {
  run(2, [](Transport& transport) {
    constexpr std::int64_t kMessages = 2000;
    if (transport.rank() == 0) {
      for (std::int64_t i = 0; i < kMessages; ++i) transport.send(number(i), 1, Tag(i));
    }
    barrier(transport);
    if (transport.rank() == 0) return;
    for (std::int64_t i = 0; i < kMessages; ++i) {
      ASSERT_EQ(number_in(must_recv(transport, 0, Tag(i))), i);
    }
  });
}

TEST_P(TransportContract, KeepsChannelsApart) {
  run(3, [](Transport& transport) {
    if (transport.rank() < 2) transport.send(number(transport.rank()), 2, 5);
    barrier(transport);
    if (transport.rank() < 2) return;
    EXPECT_EQ(number_in(must_recv(transport, 1, 5)), 1);
    EXPECT_EQ(number_in(must_recv(transport, 0, 5)), 0);
  });
}

// The fault of NCCL issues 479 and 784: two ranks that send to each other first, then receive.
TEST_P(TransportContract, LetsTwoRanksSendToEachOtherAtOnce) {
  run(2, [](Transport& transport) {
    constexpr int kMessages = 8;
    const int other = 1 - transport.rank();
    for (Tag i = 0; i < kMessages; ++i) {
      transport.send(make_message(DType::kFloat32, {1 << 20}), other, i);
    }
    for (Tag i = 0; i < kMessages; ++i) {
      EXPECT_EQ(must_recv(transport, other, i).bytes(), std::size_t{4} << 20);
    }
  });
}

TEST_P(TransportContract, GivesUpWaitingAfterTheTimeAsked) {
  run(2, [](Transport& transport) {
    const int other = 1 - transport.rank();
    EXPECT_FALSE(transport.recv(other, 1, 0));
    EXPECT_FALSE(transport.recv(other, 1, -1));
    EXPECT_FALSE(transport.recv(other, 1, 0.01));
    barrier(transport);
    std::vector<float> values = {1};
    std::unique_ptr<Reduction> sum;
    if (transport.rank() == 0) {
      sum = transport.all_reduce_sum(view(values), all_ranks(transport), 2);
      EXPECT_FALSE(sum->wait(0));
      EXPECT_FALSE(sum->wait(0.01));
    }
    barrier(transport);
    if (transport.rank() == 1)
      sum = transport.all_reduce_sum(view(values), all_ranks(transport), 2);
    must_wait(*sum);
    EXPECT_EQ(values.front(), 2);
    transport.send(number(3), other, 1);  // what was waited for in vain still comes
    EXPECT_EQ(number_in(must_recv(transport, other, 1)), 3);
  });
}

// --- sums ---

// The sum over four ranks, in rank order, of values where the order shows; over several chunks.
template <class T>
void expect_sum_in_rank_order(Transport& transport, std::size_t elements) {
  const auto value = [](std::size_t rank, std::size_t i) {
    constexpr double kScale[] = {1e8, 0.1, -1e8, 3};
    return static_cast<T>(kScale[rank] * static_cast<double>(i % 1000 + 1));
  };
  std::vector<T> values(elements);
  for (std::size_t i = 0; i < elements; ++i) {
    values[i] = value(static_cast<std::size_t>(transport.rank()), i);
  }
  sum_now(transport, values, all_ranks(transport), elements);
  for (std::size_t i = 0; i < elements; ++i) {
    T expected = value(0, i);
    for (std::size_t rank = 1; rank < 4; ++rank) expected += value(rank, i);
    ASSERT_EQ(values[i], expected) << i;
  }
}

TEST_P(TransportContract, SumsInRankOrder) {
  run(4, [](Transport& transport) {
    for (const std::size_t elements : {0U, 1U, 1023U, 65536U, 300001U}) {
      expect_sum_in_rank_order<double>(transport, elements);
      expect_sum_in_rank_order<float>(transport, elements);
      expect_sum_in_rank_order<std::int64_t>(transport, elements);
    }
  });
}

TEST_P(TransportContract, SumsBFloat16InSinglePrecision) {
  run(4, [](Transport& transport) {
    constexpr std::uint16_t kOne = 0x3F80, kTiny = 0x3B00,
                            kOneAndMore = 0x3F81;  // 1, 2^-9, 1 + 2^-7
    std::vector<std::uint16_t> values(70000, transport.rank() == 0 ? kOne : kTiny);
    sum_now(transport, values, all_ranks(transport), 1);
    EXPECT_EQ(std::ranges::count(values, kOneAndMore), 70000);
  });
}

TEST_P(TransportContract, RefusesToSumBytesAndTruthValues) {
  run(2, [](Transport& transport) {
    std::byte byte{};
    for (const DType dtype : {DType::kUInt8, DType::kBool}) {
      try {
        const auto sum = transport.all_reduce_sum({dtype, &byte, 1}, all_ranks(transport), 1);
        ADD_FAILURE() << "summed " << info(dtype).name;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kUsage);
      }
    }
    barrier(transport);  // and goes on
  });
}

TEST_P(TransportContract, SumsOverOneRankAtOnce) {
  run(2, [](Transport& transport) {
    const std::vector<int> self = {transport.rank()};
    std::vector<float> values(100000, 2.5F);
    EXPECT_TRUE(transport.all_reduce_sum(view(values), self, 1)->wait(0));
    EXPECT_EQ(std::ranges::count(values, 2.5F), 100000);
  });
}

TEST_P(TransportContract, SumsOverGroupsThatShareRanks) {
  run(4, [](Transport& transport) {
    const std::vector<std::vector<int>> groups = {{0, 1}, {1, 2, 3}, {0, 3}, {0, 1, 2, 3}, {2, 3}};
    std::vector<std::vector<std::int32_t>> values(groups.size(), {1 << transport.rank()});
    std::vector<std::unique_ptr<Reduction>> sums(groups.size());
    for (std::size_t g = 0; g < groups.size(); ++g) {
      if (std::ranges::count(groups[g], transport.rank()) == 0) continue;
      sums[g] = transport.all_reduce_sum(view(values[g]), groups[g], g);
    }
    for (std::size_t g = 0; g < groups.size(); ++g) {
      if (!sums[g]) continue;
      must_wait(*sums[g]);
      std::int32_t expected = 0;
      for (const int member : groups[g]) expected += 1 << member;
      EXPECT_EQ(values[g].front(), expected);
    }
  });
}

TEST_P(TransportContract, MatchesSumsByTagWhateverTheOrder) {
  run(2, [](Transport& transport) {
    std::vector<std::vector<std::int32_t>> values = {{10}, {20, 20}};
    std::vector<std::unique_ptr<Reduction>> sums(2);
    const std::size_t first = transport.rank() == 0 ? 0 : 1;
    for (const std::size_t tag : {first, 1 - first}) {
      sums[tag] = transport.all_reduce_sum(view(values[tag]), all_ranks(transport), tag);
    }
    for (const std::size_t tag : {first, 1 - first}) must_wait(*sums[tag]);
    EXPECT_EQ(values, (std::vector<std::vector<std::int32_t>>{{20}, {40, 40}}));
  });
}

// Rank 0 may be two calls ahead of rank 1.
TEST_P(TransportContract, MatchesSumsOfOneTagInTheirOrder) {
  run(2, [](Transport& transport) {
    std::vector<std::vector<std::int32_t>> values = {{1}, {10}, {100}};
    std::vector<std::unique_ptr<Reduction>> sums;
    if (transport.rank() == 1) (void)must_recv(transport, 0, 1);
    for (auto& value : values) {
      sums.push_back(transport.all_reduce_sum(view(value), all_ranks(transport), 3));
    }
    if (transport.rank() == 0) transport.send(number(7), 1, 1);
    for (const auto& sum : sums) must_wait(*sum);
    EXPECT_EQ(values, (std::vector<std::vector<std::int32_t>>{{2}, {20}, {200}}));
  });
}

TEST_P(TransportContract, SumsWhileMessagesGoOn) {
  run(2, [](Transport& transport) {
    const int other = 1 - transport.rank();
    std::vector<float> values(2000000, 1.0F);
    const auto sum = transport.all_reduce_sum(view(values), all_ranks(transport), 1);
    for (std::int64_t i = 0; i < 200; ++i) {
      transport.send(number(i), other, Tag(i));
      ASSERT_EQ(number_in(must_recv(transport, other, Tag(i))), i);
    }
    must_wait(*sum);
    EXPECT_EQ(std::ranges::count(values, 2.0F), 2000000);
  });
}

// What rank 0 and rank 1 give for the same sum; every rank is told both.
TEST_P(TransportContract, TellsEveryMemberWhenSumsDoNotMatch) {
  struct Case {
    std::size_t elements;
    bool wide;
    std::vector<int> members;
    std::vector<std::string> named;
  };
  const Case cases[] = {{3, false, {0, 1, 2}, {"2 elements", "3 elements"}},
                        {2, true, {0, 1, 2}, {"fp32", "fp64"}},
                        {2, false, {1, 2}, {"ranks 0, 1, 2", "ranks 1, 2"}}};
  for (const Case& odd : cases) {
    run(3, [&](Transport& transport) {
      std::vector<float> values(2);
      std::vector<double> other(odd.elements);
      std::unique_ptr<Reduction> sum;
      const std::string text = peer_error([&] {
        // Rank 1 begins after rank 0, so that both sums are open at once.
        if (transport.rank() == 1) (void)must_recv(transport, 0, 4);
        if (transport.rank() != 1) {
          sum = transport.all_reduce_sum(view(values), all_ranks(transport), 5);
        } else {
          const DType dtype = odd.wide ? DType::kFloat64 : DType::kFloat32;
          sum = transport.all_reduce_sum({dtype, view(other).data, odd.elements}, odd.members, 5);
        }
        if (transport.rank() == 0) transport.send(number(0), 1, 4);
        must_wait(*sum);
      });
      for (const std::string& name : odd.named) {
        EXPECT_NE(text.find(name), std::string::npos) << text << " does not say " << name;
      }
      EXPECT_NE(text.find("rank 1 gave"), std::string::npos) << text;
    });
  }
}

// --- abort ---

TEST_P(TransportContract, EndsEveryWaitWithTheTextOfTheFirstAbort) {
  for (int round = 0; round < 20; ++round) {
    run(4, [](Transport& transport) {
      const std::string why = "rank 3, stage 2: out of eggs";
      std::vector<float> values = {1};
      std::unique_ptr<Reduction> sum;
      EXPECT_EQ(peer_error([&] {
                  if (transport.rank() == 0) (void)transport.recv(1, 1, kLong);
                  if (transport.rank() == 1) (void)transport.recv(3, 1, kLong);
                  if (transport.rank() == 3) transport.abort(why);
                  sum = transport.all_reduce_sum(view(values), {{2, 3}}, 1);
                  (void)sum->wait(kLong);
                }),
                why);
      transport.abort("too late");
      EXPECT_EQ(peer_error([&] { transport.send(number(1), (transport.rank() + 1) % 4, 1); }), why);
      EXPECT_EQ(peer_error([&] { (void)transport.recv((transport.rank() + 1) % 4, 1, 0); }), why);
      EXPECT_EQ(peer_error(
                    [&] { (void)transport.all_reduce_sum(view(values), all_ranks(transport), 1); }),
                why);
      if (sum) {
        EXPECT_EQ(peer_error([&] { (void)sum->wait(0); }), why);
      }
    });
  }
}

// Rank 1 hears by way of rank 2 that rank 0's message is there; it alone is still at work then.
TEST_P(TransportContract, AbortDiscardsWhatHasArrived) {
  run(3, [](Transport& transport) {
    if (transport.rank() == 0) {
      transport.send(number(1), 1, 1);
      return transport.send(number(2), 2, 2);
    }
    if (transport.rank() == 2) return transport.send(must_recv(transport, 0, 2), 1, 3);
    (void)must_recv(transport, 2, 3);
    transport.abort("over");
    EXPECT_EQ(peer_error([&] { (void)transport.recv(0, 1, kLong); }), "over");
  });
}

// --- many ranks, random order ---

// Every rank sends to every other; the order of its sends and receives is its own.
TEST_P(TransportContract, SurvivesTrafficInRandomOrder) {
  run(16, [](Transport& transport) {
    constexpr std::int64_t kMessages = 30;  // on each channel
    std::vector<int> turns;                 // to others, and from others (negative)
    for (int other = 0; other < transport.size(); ++other) {
      if (other == transport.rank()) continue;
      turns.insert(turns.end(), kMessages, other);
      turns.insert(turns.end(), kMessages, -1 - other);
    }
    // A rank sends everything before it receives, so no circle of waits can form.
    std::mt19937 random(static_cast<unsigned>(transport.rank()));
    const auto receives = std::ranges::partition(turns, [](int turn) { return turn >= 0; });
    std::shuffle(turns.begin(), receives.begin(), random);
    std::shuffle(receives.begin(), turns.end(), random);
    std::vector<std::int64_t> sent(16), received(16);
    for (const int turn : turns) {
      if (turn >= 0) {
        const std::int64_t i = sent[static_cast<std::size_t>(turn)]++;
        transport.send(number(i), turn, Tag(i));
      } else {
        const std::int64_t i = received[static_cast<std::size_t>(-1 - turn)]++;
        ASSERT_EQ(number_in(must_recv(transport, -1 - turn, Tag(i))), i);
      }
    }
  });
}

// Each rank begins its sums in an order of its own, over groups that overlap, among messages.
TEST_P(TransportContract, SurvivesSumsOverOverlappingGroupsInRandomOrder) {
  run(12, [](Transport& transport) {
    std::mt19937 common(7);  // the same groups on all ranks
    std::mt19937 own(static_cast<unsigned>(transport.rank()));
    const int next = (transport.rank() + 1) % 12, previous = (transport.rank() + 11) % 12;
    for (Tag step = 0; step < 5; ++step) {
      std::vector<std::vector<int>> groups(20);
      std::vector<std::vector<std::int32_t>> values(groups.size());
      std::vector<std::unique_ptr<Reduction>> sums(groups.size());
      std::vector<std::size_t> order;
      for (std::size_t g = 0; g < groups.size(); ++g) {
        const std::size_t elements = common() % 4 == 0 ? 100000 : 1 + common() % 50;
        for (int rank = 0; rank < 12; ++rank) {
          if (common() % 3 != 0) groups[g].push_back(rank);
        }
        if (std::ranges::count(groups[g], transport.rank()) == 0) continue;
        values[g].assign(elements, 1 << transport.rank());
        order.push_back(g);
      }
      std::shuffle(order.begin(), order.end(), own);
      transport.send(number(static_cast<std::int64_t>(step)), next, step);
      for (const std::size_t g : order) {
        sums[g] = transport.all_reduce_sum(view(values[g]), groups[g], step * groups.size() + g);
      }
      std::shuffle(order.begin(), order.end(), own);
      for (const std::size_t g : order) {
        must_wait(*sums[g]);
        std::int32_t expected = 0;
        for (const int member : groups[g]) expected += 1 << member;
        ASSERT_EQ(std::ranges::count(values[g], expected), std::ssize(values[g]));
      }
      ASSERT_EQ(number_in(must_recv(transport, previous, step)), static_cast<int>(step));
    }
  });
}

}  // namespace
}  // namespace chimera
