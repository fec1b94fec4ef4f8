// Runs the rows under the weakest communication that users have: the sends and receives between two
// computations are posted together (as MPI_Sendrecv or a batch of NCCL calls does), a send is done
// when its receive is posted or the channel has room. All channels start with no room; when nothing
// moves, a channel whose send waits gets room for one more. More room never stops what moved
// before, so the run goes on from there. At the end each room is taken back where the program ends
// without it, so that none of the numbers can be lowered alone. Test: verify_test.cc.
#include "chimera/schedule/capacity.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "chimera/base/check.h"
#include "chimera/schedule/transfers.h"
#include "chimera/schedule/walk.h"

namespace chimera {
namespace {

struct Message {
  bool is_send = false;
  int number = 0;  // how many sends (receives) of its channel come before it
  std::size_t channel = 0;
  std::size_t posted_to = 0;  // end of the run of messages that it is posted with
};

using Messages = std::vector<std::vector<Message>>;  // by worker, in order

// Computations divide runs of messages, nothing else does: a receive may be posted before the
// weights are up to date.
void add_run_ends(const Row& row, std::vector<Message>& messages) {
  std::size_t begin = 0, end = 0;
  const auto close = [&] {
    for (; begin < end; ++begin) messages[begin].posted_to = end;
  };
  for (const Action& action : row) {
    if (is_send(action.op) || is_recv(action.op)) ++end;
    if (is_compute(action.op)) close();
  }
  close();
}

Messages messages_of(const Program& program, const std::vector<Channel>& channels) {
  const auto workers = static_cast<std::size_t>(program.source.workers());
  std::vector<std::size_t> index(workers * workers, 0);  // [from * workers + to] -> channel
  const auto at = [&](int from, int to) -> std::size_t& {
    return index[static_cast<std::size_t>(from) * workers + static_cast<std::size_t>(to)];
  };
  for (std::size_t i = 0; i < channels.size(); ++i) at(channels[i].from, channels[i].to) = i;
  std::vector<int> sends(channels.size(), 0), recvs(channels.size(), 0);
  Messages messages(workers);
  for (std::size_t worker = 0; worker < workers; ++worker) {
    for (const Action& action : program.rows[worker]) {
      if (!is_send(action.op) && !is_recv(action.op)) continue;
      const ChannelEnds ends =
          channel_of(program.source.placement, static_cast<int>(worker), action);
      const std::size_t channel = at(ends.from, ends.to);
      const bool sends_it = is_send(action.op);
      messages[worker].push_back({.is_send = sends_it,
                                  .number = (sends_it ? sends : recvs)[channel]++,
                                  .channel = channel});
    }
    add_run_ends(program.rows[worker], messages[worker]);
  }
  return messages;
}

// The rows run with paired sends and receives over channels of bounded capacity.
class PairedRun {
 public:
  PairedRun(const Messages& messages, const std::vector<Channel>& channels)
      : messages_(messages),
        channels_(channels),
        sends_posted_(channels.size(), 0),
        recvs_posted_(channels.size(), 0),
        posted_to_(messages.size(), 0) {}

  // Goes on until the end (true) or until nothing moves (false).
  bool advance() {
    positions_ = walk(
        messages_,
        [this](std::size_t worker, std::size_t position) { return attempt(worker, position); },
        std::move(positions_));
    for (std::size_t worker = 0; worker < messages_.size(); ++worker) {
      if (positions_[worker] != messages_[worker].size()) return false;
    }
    return true;
  }

  // After advance() returned false: a channel whose send waits for room.
  [[nodiscard]] std::size_t waiting_channel() const {
    for (std::size_t worker = 0; worker < messages_.size(); ++worker) {
      for (std::size_t i = positions_[worker]; i < posted_to_[worker]; ++i) {
        const Message& message = messages_[worker][i];
        if (message.is_send && !done(message)) return message.channel;
      }
    }
    CHECK(false);  // progress was proved with channels that always have room
  }

 private:
  // Posts the whole run of messages, when its first one comes.
  void post(std::size_t worker, std::size_t posted_to) {
    for (std::size_t& i = posted_to_[worker]; i < posted_to; ++i) {
      const Message& message = messages_[worker][i];
      ++(message.is_send ? sends_posted_ : recvs_posted_)[message.channel];
    }
  }

  [[nodiscard]] bool done(const Message& message) const {
    return message.is_send ? message.number < recvs_posted_[message.channel] +
                                                  channels_[message.channel].capacity
                           : message.number < sends_posted_[message.channel];
  }

  bool attempt(std::size_t worker, std::size_t position) {
    const Message& message = messages_[worker][position];
    post(worker, message.posted_to);
    return done(message);
  }

  const Messages& messages_;
  const std::vector<Channel>& channels_;
  std::vector<int> sends_posted_, recvs_posted_;
  std::vector<std::size_t> positions_, posted_to_;
};

}  // namespace

void find_capacities(const Program& program, std::vector<Channel>& channels) {
  const Messages messages = messages_of(program, channels);
  PairedRun run(messages, channels);
  while (!run.advance()) ++channels[run.waiting_channel()].capacity;
  for (Channel& channel : channels) {
    int low = 0, high = channel.capacity;  // enough from somewhere in between on, certainly at high
    while (low < high) {
      channel.capacity = low + (high - low) / 2;
      if (PairedRun(messages, channels).advance()) {
        high = channel.capacity;
      } else {
        low = channel.capacity + 1;
      }
    }
    channel.capacity = high;
  }
}

}  // namespace chimera
