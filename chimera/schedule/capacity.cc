// Runs the rows under the weakest communication that users have: the sends and receives between two
// computations are posted together (as MPI_Sendrecv or a batch of NCCL calls does), a send is done
// when its receive is posted or the channel has room. All channels start with no room; when nothing
// moves, a channel whose send waits gets room for one more. More room never stops what moved
// before, so the run goes on from there. At the end each room is taken back where the program ends
// without it, so that none of the numbers can be lowered alone. Test: verify_test.cc.
#include "chimera/schedule/capacity.h"

#include <algorithm>

#include "chimera/base/check.h"
#include "chimera/schedule/transfers.h"
#include "chimera/schedule/walk.h"

namespace chimera {
namespace {

// The rows run with paired sends and receives over channels of bounded capacity.
class PairedRun {
 public:
  PairedRun(const Program& program, const std::vector<Channel>& channels)
      : program_(program),
        channels_(channels),
        workers_(static_cast<std::size_t>(program.source.workers())),
        index_(workers_ * workers_, 0),
        sends_posted_(channels.size(), 0),
        recvs_posted_(channels.size(), 0),
        posted_to_(workers_, 0),
        serial_(workers_) {
    for (std::size_t i = 0; i < channels.size(); ++i) {
      index_[static_cast<std::size_t>(channels[i].from) * workers_ +
             static_cast<std::size_t>(channels[i].to)] = i;
    }
    for (std::size_t worker = 0; worker < workers_; ++worker) {
      serial_[worker].resize(program.rows[worker].size(), 0);
    }
  }

  // Goes on until the end (true) or until nothing moves (false).
  bool advance() {
    positions_ = walk(
        program_.rows,
        [this](std::size_t worker, std::size_t position) { return attempt(worker, position); },
        std::move(positions_));
    for (std::size_t worker = 0; worker < workers_; ++worker) {
      if (positions_[worker] != program_.rows[worker].size()) return false;
    }
    return true;
  }

  // After advance() returned false: a channel whose send waits for room.
  [[nodiscard]] std::size_t waiting_channel() const {
    for (std::size_t worker = 0; worker < workers_; ++worker) {
      const Row& row = program_.rows[worker];
      for (std::size_t i = positions_[worker]; i < posted_to_[worker]; ++i) {
        if (is_send(row[i].op) && !done(worker, i)) return channel(worker, row[i]);
      }
    }
    CHECK(false);  // progress was proved with channels that always have room
  }

 private:
  // Posts the whole run of messages that begins here. Computations divide runs, nothing else does:
  // a receive may be posted before the weights are up to date.
  void post(std::size_t worker, std::size_t position) {
    const Row& row = program_.rows[worker];
    std::size_t i = std::max(position, posted_to_[worker]);
    for (; i < row.size() && !is_compute(row[i].op); ++i) {
      if (is_send(row[i].op)) serial_[worker][i] = sends_posted_[channel(worker, row[i])]++;
      if (is_recv(row[i].op)) serial_[worker][i] = recvs_posted_[channel(worker, row[i])]++;
    }
    posted_to_[worker] = std::max(posted_to_[worker], i);
  }

  [[nodiscard]] bool done(std::size_t worker, std::size_t position) const {
    const Action& action = program_.rows[worker][position];
    const std::size_t c = channel(worker, action);
    const int serial = serial_[worker][position];
    if (is_send(action.op)) return serial < recvs_posted_[c] + channels_[c].capacity;
    return serial < sends_posted_[c];
  }

  bool attempt(std::size_t worker, std::size_t position) {
    const Action& action = program_.rows[worker][position];
    if (!is_send(action.op) && !is_recv(action.op)) return true;
    post(worker, position);
    return done(worker, position);
  }

  [[nodiscard]] std::size_t channel(std::size_t worker, const Action& action) const {
    const ChannelEnds ends =
        channel_of(program_.source.placement, static_cast<int>(worker), action);
    return index_[static_cast<std::size_t>(ends.from) * workers_ +
                  static_cast<std::size_t>(ends.to)];
  }

  const Program& program_;
  const std::vector<Channel>& channels_;
  std::size_t workers_;
  std::vector<std::size_t> index_;  // [from * workers + to] -> channel
  std::vector<int> sends_posted_, recvs_posted_;
  std::vector<std::size_t> positions_, posted_to_;
  std::vector<std::vector<int>> serial_;  // of each message on its channel
};

bool ends(const Program& program, const std::vector<Channel>& channels) {
  return PairedRun(program, channels).advance();
}

}  // namespace

void find_capacities(const Program& program, std::vector<Channel>& channels) {
  PairedRun run(program, channels);
  while (!run.advance()) ++channels[run.waiting_channel()].capacity;
  for (Channel& channel : channels) {
    int low = 0, high = channel.capacity;  // enough from somewhere in between on, certainly at high
    while (low < high) {
      channel.capacity = low + (high - low) / 2;
      if (ends(program, channels)) {
        high = channel.capacity;
      } else {
        low = channel.capacity + 1;
      }
    }
    channel.capacity = high;
  }
}

}  // namespace chimera
