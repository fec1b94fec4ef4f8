// All-reduce between threads of one process: matches the calls of the members, then sums in the
// background. Knows ranks and buffers, not messages.
//
// A sum is cut into chunks. One reducer thread, started with the first sum over two ranks or more,
// takes chunks of the oldest sum; members that wait for a sum take chunks of it too, so idle
// workers lend their cores and busy ones are not asked. Whoever takes a chunk adds it up for all
// members, in rank order, so the result does not depend on who took what.
//
// One mutex guards every sum's state; chunks are computed outside it. Invariants:
//   1. a chunk is taken only while all members are there and none has left: buffers of members that
//      have not come, or have gone, are never touched;
//   2. a member that leaves before the sum is done first stops the taking of chunks, then waits for
//      the chunks under way (each well under a millisecond), so its buffer is its own afterwards;
//   3. a sum stays in open_ exactly until its last member has come, or one has left;
//   4. a rank waits in one place at a time, so one condition variable a rank wakes just whom it
//   must.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "chimera/transport/abort_reason.h"
#include "chimera/transport/transport.h"

namespace chimera {

class LocalSums {
 public:
  // `aborted` is the world's; whoever sets it calls wake_all().
  LocalSums(int ranks, const AbortReason& aborted);
  ~LocalSums();
  LocalSums(const LocalSums&) = delete;
  LocalSums& operator=(const LocalSums&) = delete;

  // Transport::all_reduce_sum for `rank`. Throws Error (kPeer) if members contradict each other;
  // the caller then aborts, for the sum can never be done.
  [[nodiscard]] std::unique_ptr<Reduction> begin(int rank, Buffer buffer,
                                                 std::span<const int> members, Tag tag);

  void wake_all() noexcept;

 private:
  struct Sum;
  class Member;
  using Lock = std::unique_lock<std::mutex>;

  [[nodiscard]] std::shared_ptr<Sum> find_or_open(int rank, Buffer buffer,
                                                  std::span<const int> members, Tag tag);
  void join(Sum& sum, int rank, std::byte* data);
  void close(const Sum& sum);
  void wake_members(const Sum& sum);
  bool take_chunk(Sum& sum, Lock& lock);
  bool wait(Sum& sum, int rank, double wait_s);
  void leave(Sum& sum, int rank) noexcept;
  void reduce_until_stopped();

  const AbortReason& aborted_;
  std::mutex mutex_;                            // guards everything below
  std::vector<std::condition_variable> wakes_;  // by rank
  std::vector<std::shared_ptr<Sum>> open_;      // some members have not come; oldest first
  std::deque<std::shared_ptr<Sum>> complete_;   // all members have come; the reducer's queue
  std::condition_variable work_;                // the reducer sleeps here
  bool stop_ = false;
  std::thread reducer_;
};

}  // namespace chimera
