// The sends and receives of a program, channel by channel: the third pass of verify (verify.cc).
//
// A channel is in order if the sends of its one end are, one for one, the receives of the other.
#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <vector>

#include "chimera/schedule/verify.h"

namespace chimera {

struct ChannelEnds {
  int from = 0, to = 0;  // workers
  friend auto operator<=>(const ChannelEnds&, const ChannelEnds&) = default;
};

// The channel of a send or receive on `worker`.
[[nodiscard]] inline ChannelEnds channel_of(const Placement& placement, int worker,
                                            const Action& action) {
  const int peer = placement.worker(action.pipe, peer_stage(action));
  return is_send(action.op) ? ChannelEnds{worker, peer} : ChannelEnds{peer, worker};
}

// A send or receive and its place in the program.
struct Transfer {
  std::size_t worker = 0, position = 0;
  Action action;
};

class Transfers {
 public:
  // In the order of each worker's row.
  void add(const Transfer& transfer, ChannelEnds ends);

  // Appends what is wrong, all under Rule::kChannel.
  void check(std::vector<Violation>& violations) const;

  // By (from, to), with the number of messages.
  [[nodiscard]] std::vector<Channel> channels() const;

 private:
  struct Ends {
    std::vector<Transfer> sends, recvs;
  };
  std::map<ChannelEnds, Ends> channels_;
};

}  // namespace chimera
