#include "chimera/runtime/watched.h"

#include <utility>

namespace chimera {
namespace {

class WatchedReduction final : public Reduction {
 public:
  WatchedReduction(std::unique_ptr<Reduction> inner, PositionBoard& board, int slot)
      : inner_(std::move(inner)), board_(board), slot_(slot) {}

  bool wait(double wait_s) override {
    const PhaseScope waiting(board_, slot_, RankPhase::kWaiting);
    return inner_->wait(wait_s);
  }
  double done_s() const override { return inner_->done_s(); }

 private:
  const std::unique_ptr<Reduction> inner_;
  PositionBoard& board_;
  const int slot_;
};

class WatchedTransport final : public Transport {
 public:
  WatchedTransport(std::unique_ptr<Transport> inner, PositionBoard& board, int slot)
      : inner_(std::move(inner)), board_(board), slot_(slot) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }

  void send(Message message, int to, Tag tag) override {
    inner_->send(std::move(message), to, tag);
  }

  std::optional<Message> recv(int from, Tag tag, double wait_s) override {
    if (wait_s <= 0) return inner_->recv(from, tag, wait_s);
    const PhaseScope waiting(board_, slot_, RankPhase::kWaiting, from);
    return inner_->recv(from, tag, wait_s);
  }

  std::unique_ptr<Reduction> all_reduce_sum(Buffer buffer, std::span<const int> members,
                                            Tag tag) override {
    return std::make_unique<WatchedReduction>(inner_->all_reduce_sum(buffer, members, tag), board_,
                                              slot_);
  }

  void abort(const std::string& why) noexcept override { inner_->abort(why); }

 private:
  const std::unique_ptr<Transport> inner_;
  PositionBoard& board_;
  const int slot_;
};

}  // namespace

std::unique_ptr<Transport> watched(std::unique_ptr<Transport> inner, PositionBoard& board,
                                   int slot) {
  return std::make_unique<WatchedTransport>(std::move(inner), board, slot);
}

}  // namespace chimera
