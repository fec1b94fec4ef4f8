// Emulated links: messages and sums take as long as a machine's would that is not there. A
// decorator for ranks of one process; what really moves may be a few bytes.
//
// All times are of the ranks' own clocks (rank_clock.h). A message occupies its channel for busy_s
// from its send, or from when the messages before it have left, and arrives latency_s later: the
// receive ends no sooner. A sum runs for its cost from when the last of its members has begun, or
// from the end of the sums that were begun by all before it and share a member; its wait ends no
// sooner. These are the simulator's rules (base/turns.h, simulate.cc).
//
// Where a sum is begun by all is known as it happens, so of two that are ready within the time that
// threads need to get on, either may go first.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "chimera/base/rank_clock.h"
#include "chimera/transport/transport.h"

namespace chimera {

// Seconds; pure functions, called by any rank's thread.
struct EmulatedCosts {
  struct OfMessage {
    double busy_s = 0, latency_s = 0;
  };
  // Of a message of so many real bytes.
  std::function<OfMessage(int from, int to, Tag tag, std::size_t bytes)> message;
  std::function<double(std::span<const int> members, Tag tag, std::size_t bytes)> sum;
  int sums_at_once = 1;  // that a rank takes part in
};

// What the ranks share. Outlives their transports.
class EmulatedLinks {
 public:
  EmulatedLinks(int ranks, EmulatedCosts costs);
  ~EmulatedLinks();
  EmulatedLinks(const EmulatedLinks&) = delete;
  EmulatedLinks& operator=(const EmulatedLinks&) = delete;

  // Of one rank: all of its messages go through it, and those of all ranks through theirs. `inner`
  // and `clock`, the rank's, outlive it.
  [[nodiscard]] std::unique_ptr<Transport> transport(Transport& inner, RankClock& clock);

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace chimera
