// Transport: messages between ranks. The seam between the runtime and threads, MPI, or a decorator
// (checked.h) that adds one concern and has the same interface.
//
// One object a rank, used by that rank's thread alone; only abort() may be called from any thread.
// A channel is the ordered stream from one rank to another. Nothing here knows stages or schedules.
// Every implementation passes transport_contract_test.cc.
#pragma once

#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "chimera/transport/message.h"

namespace chimera {

// An all-reduce under way. Destroyed only after wait() returned true, or after an error; the buffer
// is the caller's again when the destructor returns. One that ends before the sum is done leaves
// the other members waiting: whoever meets an error calls abort().
class Reduction {
 public:
  virtual ~Reduction() = default;

  // Waits up to wait_s seconds; true: the buffer holds the sum. Throws Error (kPeer) on abort.
  [[nodiscard]] virtual bool wait(double wait_s) = 0;

  // When the sum was complete, in seconds of the steady clock; after wait() returned true.
  [[nodiscard]] virtual double done_s() const = 0;
};

// Long enough: whoever must not wait for ever wraps the transport (checked.h).
inline constexpr double kForever = std::numeric_limits<double>::infinity();

// Returns when the sum is there. Throws what wait() throws.
inline void finish(Reduction& reduction) {
  while (!reduction.wait(kForever)) {
  }
}

class Transport {
 public:
  virtual ~Transport() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;

  // Takes the message and returns without waiting for the receiver. `to` is another rank.
  virtual void send(Message message, int to, Tag tag) = 0;

  // The next message of the channel from `from`, in the order sent; nothing if none came within
  // wait_s seconds. `tag` is what the caller expects: a plain transport may use it to find the
  // message or not look at it; the checked decorator compares.
  [[nodiscard]] virtual std::optional<Message> recv(int from, Tag tag, double wait_s) = 0;

  // Begins the sum of `buffer` over `members` (ascending ranks, this one among them), in place and
  // in the background. All members call with the same members, tag, dtype and size (else every rank
  // gets an Error that names both sides); calls with the same members and tag match in order, and
  // groups that share a rank use different tags. The buffer belongs to the transport until wait()
  // is true. The sum is taken in rank order, so all members get bitwise the same, in every run.
  // Adds fp64, fp32, bf16 (in fp32, rounded once), int64 and int32; throws Error (kUsage) for
  // others.
  [[nodiscard]] virtual std::unique_ptr<Reduction> all_reduce_sum(Buffer buffer,
                                                                  std::span<const int> members,
                                                                  Tag tag) = 0;

  // Ends communication of all ranks: each waiting or later call throws Error (kPeer) with the text
  // of the first abort. Never throws.
  virtual void abort(const std::string& why) noexcept = 0;
};

// Every rank of the world, as the members of a sum.
[[nodiscard]] inline std::vector<int> all_ranks(const Transport& transport) {
  std::vector<int> ranks(static_cast<std::size_t>(transport.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace chimera
