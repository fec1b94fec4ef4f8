// Every kind of fault of a message, at many places: `checked` above it finds what was done, and all
// ranks end with one text. A test that hangs is ended by ctest.
#include "chimera/transport/faulty.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "chimera/base/checksum.h"
#include "chimera/base/error.h"
#include "chimera/base/random.h"
#include "chimera/base/text.h"
#include "chimera/transport/checked.h"
#include "chimera/transport/local.h"

namespace chimera {
namespace {

constexpr int kRanks = 4;
constexpr int kRounds = 9;  // two messages a rank each, and a sum every third
constexpr std::uint64_t kMessages = 2 * kRounds;

Message two_numbers(double first, double second) {
  Message message = make_message(DType::kFloat64, {2});
  const double values[] = {first, second};
  std::memcpy(message.data, values, sizeof values);
  return message;
}

double second_of(const Message& message) {
  double value = 0;
  std::memcpy(&value, message.data + sizeof value, sizeof value);
  return value;
}

// Neighbours on a ring swap numbers, and now and then all add theirs up.
double swap_and_sum(Transport& transport) {
  const int next = (transport.rank() + 1) % kRanks, previous = (transport.rank() + 3) % kRanks;
  double value = transport.rank() + 1;
  const auto received = [&](int from, Tag tag) {
    return second_of(transport.recv(from, tag, kForever).value());
  };
  for (Tag round = 0; round < kRounds; ++round) {
    transport.send(two_numbers(-1, value), next, round);
    transport.send(two_numbers(-1, value / 2), previous, round);
    value = received(previous, round) + received(next, round);
    if (round % 3 != 2) continue;
    double parts[] = {value, value / 3};
    const Buffer buffer = {DType::kFloat64, reinterpret_cast<std::byte*>(parts), 2};
    finish(*transport.all_reduce_sum(buffer, std::vector<int>{0, 1, 2, 3}, 77));
    value += parts[1];
  }
  return value;
}

struct Outcome {
  std::vector<std::string> texts;  // by rank; "" for one that came to its end
  std::vector<double> values;
};

// What later calls throw is the text of the first abort.
std::string last_word(Transport& transport) {
  try {
    (void)transport.recv((transport.rank() + 1) % kRanks, 0, 0);
  } catch (const Error& error) {
    return error.what();
  }
  return "no abort";
}

Outcome run_with(const FaultPlan& plan, const CheckedOptions& options) {
  LocalWorld world(kRanks);
  Outcome outcome{std::vector<std::string>(kRanks), std::vector<double>(kRanks)};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto place = static_cast<std::size_t>(rank);
      const auto transport = checked(faulty(world.transport(rank), plan), options);
      try {
        outcome.values[place] = swap_and_sum(*transport);
      } catch (const Error& error) {
        transport->abort(error.what());
        outcome.texts[place] = last_word(*transport);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcome;
}

// A seed's rank, and one of the first messages that it sends.
FaultPlan plan_at(FaultKind kind, std::uint64_t seed, std::uint64_t messages) {
  const PhiloxBlock draws = RandomStream(seed, 3).block(0);
  return {.kind = kind,
          .rank = static_cast<int>(draws[0] % kRanks),
          .message = 1 + draws[1] % messages,
          .seed = seed};
}

// All ranks end with one text, and it has one of the parts.
void expect_one_text(const FaultPlan& plan, const CheckedOptions& options,
                     const std::vector<std::string>& parts) {
  const Outcome outcome = run_with(plan, options);
  const std::string& text = outcome.texts.front();
  for (const std::string& other : outcome.texts) EXPECT_EQ(other, text);
  EXPECT_TRUE(std::ranges::any_of(
      parts, [&](const std::string& part) { return text.find(part) != std::string::npos; }))
      << text << "\n  has none of: " << join(parts, " | ") << "\n  seed " << plan.seed;
}

constexpr double kNever_s = 60;  // what is found is found long before

std::string of_channel(const FaultPlan& plan) { return cat("from rank ", plan.rank, ", number "); }

TEST(Faulty, ADroppedMessageIsMissedByNumberOrInTime) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const FaultPlan plan = plan_at(FaultKind::kDrop, seed, kMessages);
    expect_one_text(plan, {.limit_s = 0.2, .describe = {}}, {of_channel(plan), " waited 0.200 s"});
  }
}

TEST(Faulty, ADuplicateIsFoundAtTheNextMessage) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const FaultPlan plan = plan_at(FaultKind::kDuplicate, seed, kMessages - 2);
    expect_one_text(plan, {.limit_s = kNever_s, .describe = {}}, {of_channel(plan)});
  }
}

TEST(Faulty, AnOvertakenMessageIsFoundByItsNumber) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    // Where a sum comes next, what would overtake waits behind the sum: missed in time.
    const FaultPlan plan = plan_at(FaultKind::kReorder, seed, kMessages - 2);
    expect_one_text(plan, {.limit_s = 0.2, .describe = {}}, {of_channel(plan), " waited 0.200 s"});
  }
}

TEST(Faulty, ATruncatedMessageOrSumIsFoundByItsSize) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const FaultPlan plan = plan_at(FaultKind::kTruncate, seed, kMessages + 3);
    expect_one_text(plan, {.limit_s = kNever_s, .describe = {}},
                    {cat("from rank ", plan.rank, " with the 16 bytes that were sent"),
                     cat("rank ", plan.rank, " gave 1 element")});
  }
}

TEST(Faulty, AFlippedBitIsFoundByTheChecksum) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const FaultPlan plan = plan_at(FaultKind::kCorrupt, seed, kMessages);
    expect_one_text(plan, {.limit_s = kNever_s, .describe = {}, .checksums = true},
                    {cat("from rank ", plan.rank, ", but its 16 bytes are not those")});
  }
}

// Why the checksum is an option worth having.
TEST(Faulty, AFlippedBitGoesUnseenWithoutChecksums) {
  const FaultPlan plan = plan_at(FaultKind::kCorrupt, 1, kMessages);
  for (const std::string& text : run_with(plan, {.limit_s = kNever_s, .describe = {}}).texts) {
    EXPECT_EQ(text, "");
  }
}

TEST(Faulty, DelaysChangeNoNumber) {
  const CheckedOptions options{.limit_s = kNever_s, .describe = {}, .checksums = true};
  const FaultPlan none{.rank = 0, .message = 1'000'000};
  const Outcome expected = run_with(none, options);
  EXPECT_EQ(expected.texts, std::vector<std::string>(kRanks));
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const FaultPlan plan{.kind = FaultKind::kDelay,
                         .probability = 0.5,
                         .once = false,
                         .seed = seed,
                         .delay_s = 0.002};
    const Outcome delayed = run_with(plan, options);
    EXPECT_EQ(delayed.texts, expected.texts);
    EXPECT_EQ(delayed.values, expected.values);
  }
}

TEST(Faulty, OnceHitsOnceAndAlwaysHitsAll) {
  const auto arrives = [&](bool once) {
    LocalWorld fresh(2);
    const auto to = fresh.transport(1);
    const auto from =
        faulty(fresh.transport(0), {.kind = FaultKind::kDrop, .probability = 1, .once = once});
    for (Tag tag = 0; tag < 5; ++tag) from->send(two_numbers(0, 0), 1, tag);
    int arrived = 0;
    while (to->recv(0, 0, 0)) ++arrived;
    return arrived;
  };
  EXPECT_EQ(arrives(true), 4);
  EXPECT_EQ(arrives(false), 0);
}

TEST(Faulty, ADelayedMessageGoesOutAtTheLatestWithItsTransport) {
  LocalWorld world(2);
  const auto receiver = world.transport(1);
  auto sender =
      faulty(world.transport(0), {.kind = FaultKind::kDelay, .message = 1, .delay_s = 1e9});
  sender->send(two_numbers(0, 5), 1, 3);
  sender->send(two_numbers(0, 6), 1, 4);
  EXPECT_FALSE(receiver->recv(0, 3, 0));
  sender.reset();
  EXPECT_EQ(second_of(receiver->recv(0, 3, 0).value()), 5);
  EXPECT_EQ(second_of(receiver->recv(0, 4, 0).value()), 6);
}

TEST(Faulty, RefusesPlansThatCanHitNothing) {
  LocalWorld world(6);
  int rank = 0;
  const auto refused = [&](const FaultPlan& plan, const std::string& part) {
    try {
      (void)faulty(world.transport(rank++), plan);
      ADD_FAILURE() << "taken; expected: " << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  refused({.rank = 6, .message = 1}, "is for rank 6; there are 6 ranks");
  refused({.rank = -2, .message = 1}, "is for rank -2");
  refused({}, "has the probability 0; expected more than 0");
  refused({.probability = 1.5}, "has the probability 1.5");
  refused({.message = 1, .delay_s = -1}, "delays by -1 s");
}

TEST(Checksum, SeesEveryFlippedBitAndEveryLength) {
  std::vector<std::byte> bytes(37, std::byte{0});
  std::vector<std::uint64_t> seen = {checksum(bytes)};
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    seen.push_back(checksum(bytes));
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
  }
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    seen.push_back(checksum(std::span(bytes).first(length)));
  }
  EXPECT_EQ(checksum(bytes), seen.front());
  std::ranges::sort(seen);
  EXPECT_EQ(std::ranges::adjacent_find(seen), seen.end());
  EXPECT_NE(seen.front(), 0U);
}

}  // namespace
}  // namespace chimera
