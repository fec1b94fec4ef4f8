// What the checks find. What they let through is in transport_contract_test.cc.
#include "chimera/transport/checked.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <functional>
#include <vector>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/transport/local.h"

namespace chimera {
namespace {

// Rank 1 of 4. Keeps what is sent, and hands out what the test puts there.
class Scripted final : public Transport {
 public:
  struct Wire {
    std::vector<Message> sent;
    std::deque<Message> arriving;
    std::vector<double> waits_s;
  };
  explicit Scripted(Wire& wire) : wire_(wire) {}

  int rank() const override { return 1; }
  int size() const override { return 4; }
  void send(Message message, int, Tag tag) override {
    message.tag = tag;
    wire_.sent.push_back(std::move(message));
  }
  std::optional<Message> recv(int, Tag, double wait_s) override {
    wire_.waits_s.push_back(wait_s);
    if (wire_.arriving.empty()) return std::nullopt;
    Message message = std::move(wire_.arriving.front());
    wire_.arriving.pop_front();
    return message;
  }
  std::unique_ptr<Reduction> all_reduce_sum(Buffer, std::span<const int>, Tag) override {
    return std::make_unique<NeverDone>();
  }
  void abort(const std::string&) noexcept override {}

 private:
  struct NeverDone final : Reduction {
    bool wait(double) override { return false; }
    double done_s() const override { return 0; }
  };
  Wire& wire_;
};

class Checked : public testing::Test {
 protected:
  Scripted::Wire wire;
  std::unique_ptr<Transport> transport =
      checked(std::make_unique<Scripted>(wire),
              {.limit_s = 5, .describe = [](Tag tag) { return cat("F", tag); }});

  // A message as a checked peer sends it.
  static Message sent(std::uint64_t sequence, Tag tag) {
    Message message = make_message(DType::kFloat32, {2, 3});
    message.tag = tag;
    message.envelope = {.sequence = sequence, .bytes = message.bytes(), .checksum = 0};
    return message;
  }
};

void expect_error(ErrorCode code, const std::string& part, const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << "nothing thrown; expected: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
        << error.what() << "\n  does not say: " << part;
  }
}

TEST_F(Checked, NumbersTheMessagesOfEachChannel) {
  for (const int to : {0, 2, 0}) transport->send(make_message(DType::kFloat64, {3}), to, 1);
  ASSERT_EQ(wire.sent.size(), 3U);
  EXPECT_EQ(wire.sent[0].envelope.sequence, 1U);
  EXPECT_EQ(wire.sent[1].envelope.sequence, 1U);
  EXPECT_EQ(wire.sent[2].envelope.sequence, 2U);
  EXPECT_EQ(wire.sent[2].envelope.bytes, 24U);
}

TEST_F(Checked, RefusesMessagesThatMakeNoSense) {
  const auto refused = [&](const std::string& part, int to,
                           const std::function<void(Message&)>& spoil) {
    Message message = make_message(DType::kFloat32, {2, 3});
    spoil(message);
    expect_error(ErrorCode::kUsage, part, [&] { transport->send(message, to, 8); });
  };
  refused("rank 1 cannot send to rank 4; there are 4 ranks", 4, [](Message&) {});
  refused("rank 1 cannot send to rank -1", -1, [](Message&) {});
  refused("rank 1 cannot send to itself", 1, [](Message&) {});
  refused("message F8 from rank 1 to 2 has no data; its shape needs 24 bytes", 2,
          [](Message& message) { message.data = nullptr; });
  refused("has no bytes of its own", 2, [](Message& message) { message = Message(); });
  refused("has the unknown dtype 77", 2,
          [](Message& message) { message.dtype = static_cast<DType>(77); });
  refused("has the impossible shape [2, -3]", 2, [](Message& message) { message.shape = {2, -3}; });
  refused("has the impossible shape", 2, [](Message& message) {
    message.shape = {std::int64_t{1} << 40, std::int64_t{1} << 40};
  });
  EXPECT_TRUE(wire.sent.empty());
  expect_error(ErrorCode::kUsage, "cannot receive from itself",
               [&] { (void)transport->recv(1, 8, 1); });
  expect_error(ErrorCode::kUsage, "cannot receive from rank 9",
               [&] { (void)transport->recv(9, 8, 1); });
}

TEST_F(Checked, FindsMessagesThatAreNotTheExpectedOnes) {
  const auto found = [&](const std::string& part, const std::function<void(Message&)>& spoil) {
    Scripted::Wire other;
    const auto receiver = checked(std::make_unique<Scripted>(other),
                                  {.describe = [](Tag tag) { return cat("F", tag); }});
    other.arriving = {sent(1, 7), sent(2, 8)};
    spoil(other.arriving.back());
    EXPECT_TRUE(receiver->recv(0, 7, 1));
    expect_error(ErrorCode::kPeer, part, [&] { (void)receiver->recv(0, 8, 1); });
  };
  found("rank 1 expected message F8 from rank 0, but F9 came",
        [](Message& message) { message.tag = 9; });
  found("number 2 of its channel, but number 3 came",
        [](Message& message) { message.envelope.sequence = 3; });
  found("number 2 of its channel, but number 1 came (F7)",
        [](Message& message) { message = sent(1, 7); });
  found("was not sent by a checked transport", [](Message& message) { message.envelope = {}; });
  found("with the 24 bytes that were sent, but its shape [2, 2] does not hold them",
        [](Message& message) { message.shape.back() = 2; });
  found("does not hold them", [](Message& message) { message.dtype = DType::kBFloat16; });
  found("does not hold them", [](Message& message) { message.dtype = static_cast<DType>(9); });
  found("does not hold them", [](Message& message) { message.data = nullptr; });
}

TEST_F(Checked, RefusesSumsThatMakeNoSense) {
  std::vector<float> values(3);
  const Buffer buffer = {DType::kFloat32, reinterpret_cast<std::byte*>(values.data()), 3};
  const auto refused = [&](const std::string& part, Buffer bad, const std::vector<int>& members) {
    expect_error(ErrorCode::kUsage, part,
                 [&] { (void)transport->all_reduce_sum(bad, members, 8); });
  };
  refused("rank 1 cannot sum F8 over the ranks [2, 1]; expected them in ascending order", buffer,
          {2, 1});
  refused("ascending order, each once", buffer, {1, 1});
  refused("expected this rank among them", buffer, {0, 2});
  refused("expected this rank among them", buffer, {});
  refused("expected ranks from 0 to 3", buffer, {1, 4});
  refused("expected ranks from 0 to 3", buffer, {-1, 1});
  refused("has no data; expected 3 elements of fp32", {DType::kFloat32, nullptr, 3}, {0, 1});
  refused("unknown dtype 50", {static_cast<DType>(50), buffer.data, 3}, {0, 1});
}

TEST_F(Checked, EndsAWaitPastTheLimit) {
  expect_error(ErrorCode::kTimeout, "rank 1 waited 5.0 s for message F8 from rank 2",
               [&] { (void)transport->recv(2, 8, 1e6); });
  EXPECT_EQ(wire.waits_s, std::vector<double>{5});
  std::vector<float> values(3);
  const std::array members = {0, 1};
  const auto sum = transport->all_reduce_sum(
      {DType::kFloat32, reinterpret_cast<std::byte*>(values.data()), 3}, members, 6);
  EXPECT_FALSE(sum->wait(3));
  expect_error(ErrorCode::kTimeout, "rank 1 waited 5.0 s for the sum of F6 over the ranks 0, 1",
               [&] { (void)sum->wait(3); });
}

TEST_F(Checked, AddsUpTheWaitsForOneMessage) {
  EXPECT_FALSE(transport->recv(2, 8, 3));
  EXPECT_FALSE(transport->recv(3, 8, 3));  // another channel, another wait
  wire.arriving = {sent(1, 8)};
  EXPECT_TRUE(transport->recv(2, 8, 3));
  EXPECT_FALSE(transport->recv(2, 9, 3));  // it came, so the wait begins anew
  expect_error(ErrorCode::kTimeout, "message F9 from rank 2",
               [&] { (void)transport->recv(2, 9, 3); });
  EXPECT_EQ(wire.waits_s, (std::vector<double>{3, 3, 2, 3, 2}));
}

TEST_F(Checked, KeepsItsLimitOverTheLocalTransport) {
  LocalWorld world(2);
  const auto waiting = checked(world.transport(0), {.limit_s = 0.02});
  expect_error(ErrorCode::kTimeout, "rank 0 waited 0.020 s for message tag 8 from rank 1",
               [&] { (void)waiting->recv(1, 8, 60); });
  std::vector<float> values(1);
  const std::array members = {0, 1};
  const auto sum = waiting->all_reduce_sum(
      {DType::kFloat32, reinterpret_cast<std::byte*>(values.data()), 1}, members, 6);
  expect_error(ErrorCode::kTimeout, "for the sum of tag 6", [&] { (void)sum->wait(60); });
}

TEST_F(Checked, NeedsALimit) {
  expect_error(ErrorCode::kUsage, "expected more than 0",
               [&] { (void)checked(std::make_unique<Scripted>(wire), {.limit_s = 0}); });
}

}  // namespace
}  // namespace chimera
