#include "chimera/transport/faulty.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "chimera/base/clock.h"
#include "chimera/base/error.h"
#include "chimera/base/random.h"
#include "chimera/base/text.h"
#include "chimera/transport/sum.h"

namespace chimera {
namespace {

// What was held back, in the order asked for. Once something is, all that follows waits behind it,
// so channels and sums keep their order.
class Backlog {
 public:
  void add(double due_s, std::function<void()> go) {
    if (!waiting_.empty()) due_s = std::max(due_s, waiting_.back().due_s);
    waiting_.push_back({due_s, std::move(go)});
  }
  [[nodiscard]] bool empty() const { return waiting_.empty(); }

  void release_due() {
    while (!waiting_.empty() && waiting_.front().due_s <= now_s()) release_front();
  }
  void release_all() {
    while (!waiting_.empty()) release_front();
  }

  // Calls wait(part) for parts of wait_s, and in between lets go what is due, until it is true.
  [[nodiscard]] bool wait(double wait_s, const std::function<bool(double)>& part) {
    const double end_s = now_s() + wait_s;
    release_due();
    while (!waiting_.empty() && waiting_.front().due_s < end_s) {
      if (part(waiting_.front().due_s - now_s())) return true;
      release_due();
    }
    return part(end_s - now_s());
  }

 private:
  struct Held {
    double due_s;
    std::function<void()> go;
  };

  void release_front() {
    const std::function<void()> go = std::move(waiting_.front().go);
    waiting_.pop_front();
    go();
  }

  std::deque<Held> waiting_;
};

// A sum of a rank with a backlog, which may hold the sum's own begin.
class HeldReduction final : public Reduction {
 public:
  using Inner = std::shared_ptr<std::unique_ptr<Reduction>>;  // null until begun
  HeldReduction(Inner inner, Backlog& backlog) : inner_(std::move(inner)), backlog_(backlog) {}

  bool wait(double wait_s) override {
    return backlog_.wait(wait_s, [&](double part_s) {
      if (*inner_) return (*inner_)->wait(part_s);
      // Not begun, so the backlog is not empty, and this part ends when its first is due.
      if (part_s > 0) std::this_thread::sleep_for(std::chrono::duration<double>(part_s));
      return false;
    });
  }
  double done_s() const override { return (*inner_)->done_s(); }

 private:
  const Inner inner_;
  Backlog& backlog_;
};

// Less the rank: tags that no one else uses, since each group of ranks has its own.
constexpr Tag kProbeTag = ~Tag{0};

std::shared_ptr<void> copy_bytes(Message& message) {
  Message copy = make_message(message.dtype, message.shape);
  if (message.bytes() > 0) std::memcpy(copy.data, message.data, message.bytes());
  message.data = copy.data;
  return copy.owner;
}

class FaultyTransport final : public Transport {
 public:
  FaultyTransport(std::unique_ptr<Transport> inner, const FaultPlan& plan)
      : inner_(std::move(inner)),
        plan_(plan),
        strikes_(plan.seed, static_cast<std::uint32_t>(inner_->rank()), 1),
        details_(plan.seed, static_cast<std::uint32_t>(inner_->rank()), 2) {}

  ~FaultyTransport() override {
    try {
      backlog_.release_all();
    } catch (const std::exception&) {  // aborted: there is no one to send to
    }
  }

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }

  void send(Message message, int to, Tag tag) override {
    const bool hit = is_hit(message.bytes() > 0);
    backlog_.release_due();
    if (!hit) return pass(std::move(message), to, tag);
    switch (plan_.kind) {
      case FaultKind::kDrop:
        return;
      case FaultKind::kDelay:
        return hold([this, message, to, tag] { inner_->send(message, to, tag); });
      case FaultKind::kDuplicate:
        pass(message, to, tag);
        return pass(std::move(message), to, tag);
      case FaultKind::kTruncate:
        truncate(message);
        return pass(std::move(message), to, tag);
      case FaultKind::kCorrupt:
        flip_a_bit(message);
        return pass(std::move(message), to, tag);
      case FaultKind::kReorder:
        overtaken_[to].push_back({std::move(message), tag});
    }
  }

  std::optional<Message> recv(int from, Tag tag, double wait_s) override {
    std::optional<Message> message;
    (void)backlog_.wait(wait_s, [&](double part_s) {
      message = inner_->recv(from, tag, part_s);
      return message.has_value();
    });
    return message;
  }

  std::unique_ptr<Reduction> all_reduce_sum(Buffer buffer, std::span<const int> members,
                                            Tag tag) override {
    const bool whole = plan_.kind != FaultKind::kDelay && plan_.kind != FaultKind::kTruncate;
    const bool can_hit = !whole && can_sum(buffer.dtype) && members.size() > 1;
    const bool hit = can_hit && is_hit(buffer.elements > 0);
    backlog_.release_due();
    if (hit && plan_.kind == FaultKind::kTruncate) --buffer.elements;
    auto begun = std::make_shared<std::unique_ptr<Reduction>>();
    const auto begin = [this, begun, buffer, tag,
                        who = std::vector(members.begin(), members.end())] {
      *begun = inner_->all_reduce_sum(buffer, who, tag);
    };
    if (hit && plan_.kind == FaultKind::kDelay) {
      hold(begin);
    } else if (!backlog_.empty() && can_hit) {
      throw_if_aborted();
      backlog_.add(0, begin);
    } else {
      begin();
    }
    return std::make_unique<HeldReduction>(std::move(begun), backlog_);
  }

  void abort(const std::string& why) noexcept override { inner_->abort(why); }

 private:
  // Whether the next thing that this rank sends is hit; it has_bytes, or not.
  [[nodiscard]] bool is_hit(bool has_bytes) {
    if (plan_.rank != kEveryRank && plan_.rank != rank()) return false;
    const bool needs_bytes =
        plan_.kind == FaultKind::kTruncate || plan_.kind == FaultKind::kCorrupt;
    if (needs_bytes && !has_bytes) return false;
    const std::uint64_t index = counted_++;
    if (plan_.message > 0) return plan_.message == counted_;
    if (plan_.once && hits_ > 0) return false;
    if (strikes_.uniform(index) >= plan_.probability) return false;
    ++hits_;
    return true;
  }

  void pass(Message message, int to, Tag tag) {
    if (backlog_.empty()) {
      inner_->send(std::move(message), to, tag);
    } else {
      backlog_.add(
          0, [this, message = std::move(message), to, tag] { inner_->send(message, to, tag); });
    }
    const auto behind = overtaken_.extract(to);
    if (behind.empty()) return;
    for (const auto& [late, late_tag] : behind.mapped()) inner_->send(late, to, late_tag);
  }

  // A sum of nothing over this rank alone says whether communication has ended: what is held back
  // would hear of it late.
  void throw_if_aborted() {
    const std::array self = {rank()};
    finish(*inner_->all_reduce_sum({DType::kFloat32, nullptr, 0}, self,
                                   kProbeTag - static_cast<Tag>(rank())));
  }

  void hold(std::function<void()> go) {
    throw_if_aborted();
    backlog_.add(now_s() + plan_.delay_s * details_.uniform(counted_), std::move(go));
  }

  // One less along the last dimension.
  static void truncate(Message& message) {
    if (message.shape.empty()) message.shape = {1};
    --message.shape.back();
  }

  // In a copy: the bytes may be someone else's too.
  void flip_a_bit(Message& message) {
    message.owner = copy_bytes(message);
    const std::uint64_t bit = details_.block(counted_)[1] % (message.bytes() * 8);
    message.data[bit / 8] ^= std::byte{1} << (bit % 8);
  }

  const std::unique_ptr<Transport> inner_;
  const FaultPlan plan_;
  const RandomStream strikes_, details_;
  std::uint64_t counted_ = 0;  // what could have been hit so far
  std::uint64_t hits_ = 0;
  Backlog backlog_;
  std::map<int, std::vector<std::pair<Message, Tag>>> overtaken_;  // by receiver
};

}  // namespace

std::unique_ptr<Transport> faulty(std::unique_ptr<Transport> inner, const FaultPlan& plan) {
  const auto refuse_plan = [](const auto&... parts) {
    throw Error(ErrorCode::kUsage, cat("a fault of the transport ", parts...));
  };
  if (plan.rank != kEveryRank && (plan.rank < 0 || plan.rank >= inner->size())) {
    refuse_plan("is for rank ", plan.rank, "; there are ", inner->size(), " ranks, from 0");
  }
  if (plan.message == 0 && !(plan.probability > 0 && plan.probability <= 1)) {
    refuse_plan("has the probability ", plan.probability,
                "; expected more than 0 and at most 1, or the number of a message, from 1");
  }
  if (!(plan.delay_s >= 0)) refuse_plan("delays by ", plan.delay_s, " s; expected 0 or more");
  return std::make_unique<FaultyTransport>(std::move(inner), plan);
}

}  // namespace chimera
