// What is the MPI transport's alone; the rest is in transport_contract_test.cc. Run by all ranks in
// step, as that is.
#include "chimera/transport/mpi.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "chimera/base/clock.h"
#include "chimera/base/error.h"
#include "chimera/transport/mpi/testing.h"

namespace chimera {
namespace {

constexpr double kPatienceSeconds = 60;

// The program on the first two processes, in a world with these options.
template <class Program>
void run_on_two(MpiOptions options, const Program& program) {
  options.ranks = 2;
  MpiWorld world(mpi_process(), options);
  if (mpi_process().rank() >= 2) return;
  const std::unique_ptr<Transport> transport = world.transport();
  try {
    program(*transport, world);
  } catch (const std::exception& error) {
    ADD_FAILURE() << "rank " << transport->rank() << ": " << error.what();
    transport->abort(error.what());
  }
}

// Bytes whose place shows.
std::byte byte_at(std::size_t i) { return static_cast<std::byte>(i * 2654435761U >> 24); }

Message pattern(std::size_t bytes) {
  Message message = make_message(DType::kUInt8, {static_cast<std::int64_t>(bytes)});
  for (std::size_t i = 0; i < bytes; ++i) message.data[i] = byte_at(i);
  return message;
}

void expect_pattern(const std::optional<Message>& message, std::size_t bytes) {
  ASSERT_TRUE(message);
  ASSERT_EQ(message->bytes(), bytes);
  for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(message->data[i], byte_at(i)) << i;
}

TEST(Mpi, KnowsItsPlaceOnThisMachine) {
  MpiProcess& process = mpi_process();
  EXPECT_GE(process.local_rank(), 0);
  EXPECT_LT(process.local_rank(), process.local_size());
  EXPECT_LE(process.local_size(), process.size());
}

// Around the sizes where the bytes no longer fit beside what describes them, and where they fill
// parts exactly.
TEST(Mpi, SplitsMessagesIntoParts) {
  run_on_two({.part_bytes = 10'000}, [](Transport& transport, MpiWorld&) {
    const std::vector<std::size_t> sizes = {0,    1,      3700,   3820,    3900,   4000,
                                            9999, 10'000, 10'001, 100'000, 123'456};
    for (const std::size_t bytes : sizes) {
      if (transport.rank() == 0) {
        transport.send(pattern(bytes), 1, bytes);
      } else {
        expect_pattern(transport.recv(0, bytes, kPatienceSeconds), bytes);
      }
    }
  });
}

// More bytes than MPI can count in one message. Takes 6 GB of memory and some seconds.
TEST(Mpi, SendsMoreThanTwoGigabytesInOneMessage) {
  if (std::getenv("CHIMERA_LARGE") == nullptr) {
    if (mpi_process().rank() > 0) return;  // one says so for all
    GTEST_SKIP() << "set CHIMERA_LARGE=1 to run it";
  }
  constexpr std::int64_t kElements = (std::int64_t{5} << 30) / 2 / 8;  // of 8 bytes: 2.5 GiB
  run_on_two({}, [](Transport& transport, MpiWorld&) {
    if (transport.rank() == 0) {
      Message message = make_message(DType::kInt64, {kElements});
      auto* values = reinterpret_cast<std::int64_t*>(message.data);
      std::iota(values, values + kElements, 0);
      transport.send(std::move(message), 1, 1);
      return;
    }
    const std::optional<Message> message = transport.recv(0, 1, kPatienceSeconds);
    ASSERT_TRUE(message);
    const auto* values = reinterpret_cast<const std::int64_t*>(message->data);
    for (std::int64_t i = 0; i < kElements; ++i) ASSERT_EQ(values[i], i);
  });
}

// A long message, and a long sum, need both sides to get on: rank 0 sends and is then busy with
// something else until rank 1 has got them.
TEST(Mpi, GetsOnWhileTheWorkerIsBusy) {
  run_on_two({}, [](Transport& transport, MpiWorld&) {
    constexpr std::size_t kBytes = 8 << 20;
    std::vector<float> values(kBytes / 4, 1.0F);
    const Buffer buffer{DType::kFloat32, reinterpret_cast<std::byte*>(values.data()),
                        values.size()};
    const std::vector<int> members = {0, 1};
    const auto sum = transport.all_reduce_sum(buffer, members, 1);
    if (transport.rank() == 0) {
      std::weak_ptr<void> watch;
      {
        Message message = pattern(kBytes);
        watch = message.owner;
        transport.send(std::move(message), 1, 2);
      }
      while (!watch.expired()) {  // no call of the transport
      }
    } else {
      ASSERT_TRUE(sum->wait(kPatienceSeconds));
      expect_pattern(transport.recv(0, 2, kPatienceSeconds), kBytes);
    }
    ASSERT_TRUE(sum->wait(kPatienceSeconds));
    EXPECT_EQ(std::accumulate(values.begin(), values.end(), 0.0), 2.0 * kBytes / 4);
  });
}

// What a sum's member gives back early is its own again: the sanitizers see any later touch.
TEST(Mpi, GivesTheBufferBackWhenAMemberLeavesEarly) {
  for (int round = 0; round < 5; ++round) {
    run_on_two({}, [](Transport& transport, MpiWorld&) {
      auto values = std::make_unique<std::vector<float>>(2'000'000, 1.0F);
      const Buffer buffer{DType::kFloat32, reinterpret_cast<std::byte*>(values->data()),
                          values->size()};
      const std::vector<int> members = {0, 1};
      std::unique_ptr<Reduction> sum;
      try {
        sum = transport.all_reduce_sum(buffer, members, 1);
        if (transport.rank() == 1) transport.abort("left");
        (void)sum->wait(kPatienceSeconds);
        ADD_FAILURE() << "nothing thrown";
      } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "left");
      }
      sum.reset();
      values.reset();
    });
  }
}

// One text though both abort at once: that of whom rank 0 heard first, or its own.
TEST(Mpi, GivesAllRanksTheSameTextWhenSeveralAbort) {
  for (int round = 0; round < 10; ++round) {
    std::string seen;
    {
      MpiWorld world(mpi_process());
      const std::unique_ptr<Transport> transport = world.transport();
      transport->abort("rank " + std::to_string(transport->rank()));
      seen = world.aborted();
    }
    EXPECT_EQ(seen.rfind("rank ", 0), 0U) << seen;
    const std::int64_t speaker = std::stoll(seen.substr(5));
    MpiWorld world(mpi_process());
    const std::unique_ptr<Transport> transport = world.transport();
    std::vector<std::int64_t> speakers(static_cast<std::size_t>(transport->size()));
    speakers[static_cast<std::size_t>(transport->rank())] = speaker;
    std::vector<int> members(speakers.size());
    std::iota(members.begin(), members.end(), 0);
    const Buffer buffer{DType::kInt64, reinterpret_cast<std::byte*>(speakers.data()),
                        speakers.size()};
    finish(*transport->all_reduce_sum(buffer, members, 1));
    EXPECT_EQ(speakers, std::vector<std::int64_t>(speakers.size(), speaker));
  }
}

TEST(Mpi, TakesATextThatWasDecidedElsewhere) {
  run_on_two({}, [](Transport& transport, MpiWorld& world) {
    if (transport.rank() == 1) world.abort("rank 7 has died");
    try {
      (void)transport.recv(1 - transport.rank(), 1, kPatienceSeconds);
      ADD_FAILURE() << "nothing thrown";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "rank 7 has died");
    }
    EXPECT_EQ(world.aborted(), "rank 7 has died");
  });
}

TEST(Mpi, LetsSomethingElseSpreadAborts) {
  run_on_two({}, [](Transport& transport, MpiWorld& world) {
    std::string told;
    world.spread_aborts_by([&](const std::string& why) {
      told = why;
      world.abort("decided: " + why);
    });
    if (transport.rank() == 0) transport.abort("mine");
    EXPECT_THROW((void)transport.recv(1 - transport.rank(), 1, kPatienceSeconds), Error);
    EXPECT_EQ(world.aborted(), "decided: mine");
    EXPECT_EQ(told, transport.rank() == 0 ? "mine" : "");
  });
}

TEST(Mpi, RefusesAWorldOfMoreRanksThanProcesses) {
  EXPECT_THROW(MpiWorld(mpi_process(), {.ranks = mpi_process().size() + 1}), Error);
}

}  // namespace
}  // namespace chimera
