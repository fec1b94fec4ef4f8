// A rank's mailbox has a queue for each sender and one lock. Its owner is the only one to wait at
// it, and says for whom it waits, so a message wakes it only if it is the one it wants, and a
// thread that waits sleeps. Sending moves a pointer: no copy, and never a wait for the receiver, so
// sends in opposite directions cannot lock up.
#include "chimera/transport/local.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "chimera/base/check.h"
#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/transport/abort_reason.h"
#include "chimera/transport/deadline.h"
#include "chimera/transport/local_sums.h"
#include "chimera/transport/sum.h"

namespace chimera {
namespace {

class Mailbox {
 public:
  explicit Mailbox(int ranks) : channels_(static_cast<std::size_t>(ranks)) {}

  void put(Message message, int from) {
    bool wanted = false;
    {
      const std::lock_guard lock(mutex_);
      channels_[static_cast<std::size_t>(from)].push_back(std::move(message));
      wanted = waiting_for_ == from;
    }
    if (wanted) arrived_.notify_one();
  }

  [[nodiscard]] std::optional<Message> take(int from, double wait_s, const AbortReason& aborted) {
    std::unique_lock lock(mutex_);
    std::deque<Message>& channel = channels_[static_cast<std::size_t>(from)];
    if (channel.empty()) {
      waiting_for_ = from;
      arrived_.wait_until(lock, deadline_after(wait_s),
                          [&] { return aborted.is_set() || !channel.empty(); });
      waiting_for_ = kNobody;
    }
    aborted.throw_if_set();
    if (channel.empty()) return std::nullopt;
    Message message = std::move(channel.front());
    channel.pop_front();
    return message;
  }

  void wake() noexcept {
    { const std::lock_guard lock(mutex_); }  // its owner is not about to fall asleep
    arrived_.notify_one();
  }

 private:
  static constexpr int kNobody = -1;

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<std::deque<Message>> channels_;  // by sender
  int waiting_for_ = kNobody;
};

}  // namespace

struct LocalWorld::State {
  explicit State(int ranks) : handed_out(static_cast<std::size_t>(ranks)), sums(ranks, aborted) {
    for (int rank = 0; rank < ranks; ++rank) mailboxes.emplace_back(ranks);
  }

  void abort(const std::string& why) noexcept {
    aborted.set(why);
    for (Mailbox& mailbox : mailboxes) mailbox.wake();
    sums.wake_all();
  }

  [[nodiscard]] bool has(int rank) const {
    return rank >= 0 && rank < static_cast<int>(mailboxes.size());
  }

  AbortReason aborted;
  std::vector<char> handed_out;   // by rank; bytes, for each rank's thread may set its own
  std::deque<Mailbox> mailboxes;  // by rank; a deque, for they cannot move
  LocalSums sums;
};

namespace {

class LocalTransport final : public Transport {
 public:
  LocalTransport(LocalWorld::State& world, int rank) : world_(world), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(world_.mailboxes.size()); }

  void send(Message message, int to, Tag tag) override {
    CHECK(world_.has(to) && to != rank_);
    world_.aborted.throw_if_set();
    message.tag = tag;
    world_.mailboxes[static_cast<std::size_t>(to)].put(std::move(message), rank_);
  }

  std::optional<Message> recv(int from, Tag, double wait_s) override {
    CHECK(world_.has(from) && from != rank_);
    return world_.mailboxes[static_cast<std::size_t>(rank_)].take(from, wait_s, world_.aborted);
  }

  std::unique_ptr<Reduction> all_reduce_sum(Buffer buffer, std::span<const int> members,
                                            Tag tag) override {
    check_can_sum(buffer.dtype);
    try {
      return world_.sums.begin(rank_, buffer, members, tag);
    } catch (const Error& error) {
      abort(error.what());
      world_.aborted.throw_if_set();
      throw;
    }
  }

  void abort(const std::string& why) noexcept override { world_.abort(why); }

 private:
  LocalWorld::State& world_;
  const int rank_;
};

}  // namespace

LocalWorld::LocalWorld(int ranks) : state_(std::make_unique<State>(ranks)) {}
LocalWorld::~LocalWorld() = default;

std::unique_ptr<Transport> LocalWorld::transport(int rank) {
  CHECK(state_->has(rank) && !state_->handed_out[static_cast<std::size_t>(rank)]);
  state_->handed_out[static_cast<std::size_t>(rank)] = 1;
  return std::make_unique<LocalTransport>(*state_, rank);
}

void LocalWorld::abort(const std::string& why) noexcept { state_->abort(why); }

std::string LocalWorld::aborted() const { return state_->aborted.text(); }

}  // namespace chimera
