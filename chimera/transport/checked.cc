#include "chimera/transport/checked.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <utility>
#include <vector>

#include "chimera/base/checksum.h"
#include "chimera/base/error.h"
#include "chimera/base/text.h"

namespace chimera {
namespace {

// The caller asked for something that makes no sense.
template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  throw Error(ErrorCode::kUsage, cat(parts...));
}

// Another rank, or the way from it, did something else than agreed.
template <class... Parts>
[[noreturn]] void blame_peer(const Parts&... parts) {
  throw Error(ErrorCode::kPeer, cat(parts...));
}

std::string seconds(double s) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), s < 1 ? "%.3f s" : "%.1f s", s);
  return text.data();
}

bool is_known(DType dtype) { return static_cast<std::size_t>(dtype) < kDTypes.size(); }

// False for a negative extent, or more bytes than can be counted.
bool is_possible(const Message& message) {
  auto bytes = static_cast<std::int64_t>(info(message.dtype).bytes);
  return std::ranges::all_of(message.shape, [&](std::int64_t extent) {
    return extent >= 0 && !__builtin_mul_overflow(bytes, extent, &bytes);
  });
}

std::span<const std::byte> bytes_of(const Message& message) {
  return {message.data, message.bytes()};
}

// Splits a limit over the waits of a caller that comes back after each: what is left of it.
class Patience {
 public:
  explicit Patience(double limit_s) : limit_s_(limit_s) {}

  // How long to wait now, when the caller asks for wait_s.
  [[nodiscard]] double share(double wait_s) const { return std::min(wait_s, limit_s_ - waited_s_); }
  // Nothing came in that time; true: this was the last of it.
  [[nodiscard]] bool spent(double share_s) {
    const bool last = share_s >= limit_s_ - waited_s_;
    waited_s_ += std::max(share_s, 0.0);
    return last;
  }
  void renew() { waited_s_ = 0; }

 private:
  double limit_s_;
  double waited_s_ = 0;
};

class CheckedReduction final : public Reduction {
 public:
  // `late` says who waited for which sum, for how long.
  CheckedReduction(std::unique_ptr<Reduction> inner, double limit_s, std::string late)
      : inner_(std::move(inner)), patience_(limit_s), late_(std::move(late)) {}

  bool wait(double wait_s) override {
    const double share_s = patience_.share(wait_s);
    if (inner_->wait(share_s)) return true;
    if (!patience_.spent(share_s)) return false;
    throw Error(ErrorCode::kTimeout,
                cat(late_,
                    ", the limit; a member is slow, has stopped, or never begins this sum: "
                    "look at the other ranks, or raise the limit"));
  }
  double done_s() const override { return inner_->done_s(); }

 private:
  const std::unique_ptr<Reduction> inner_;
  Patience patience_;
  const std::string late_;
};

class CheckedTransport final : public Transport {
 public:
  CheckedTransport(std::unique_ptr<Transport> inner, CheckedOptions options)
      : inner_(std::move(inner)),
        options_(std::move(options)),
        sent_(static_cast<std::size_t>(inner_->size())),
        received_(sent_.size()),
        patience_(sent_.size(), Patience(options_.limit_s)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }

  void send(Message message, int to, Tag tag) override {
    check_peer("send to", to);
    check_outgoing(message, to, tag);
    const std::uint64_t sequence = ++sent_[static_cast<std::size_t>(to)];
    message.envelope = {.sequence = sequence, .bytes = message.bytes(), .checksum = 0};
    if (options_.checksums) message.envelope.checksum = checksum(bytes_of(message));
    inner_->send(std::move(message), to, tag);
  }

  std::optional<Message> recv(int from, Tag tag, double wait_s) override {
    check_peer("receive from", from);
    Patience& patience = patience_[static_cast<std::size_t>(from)];
    const double share_s = patience.share(wait_s);
    std::optional<Message> message = inner_->recv(from, tag, share_s);
    if (message) {
      patience.renew();
      check_incoming(*message, from, tag);
    } else if (patience.spent(share_s)) {
      throw Error(ErrorCode::kTimeout,
                  cat("rank ", rank(), " waited ", seconds(options_.limit_s), " for message ",
                      describe(tag), " from rank ", from, ", the limit; rank ", from,
                      " is slow, has stopped, or never sends it: look at that rank, or raise the "
                      "limit"));
    }
    return message;
  }

  std::unique_ptr<Reduction> all_reduce_sum(Buffer buffer, std::span<const int> members,
                                            Tag tag) override {
    check_members(members, tag);
    check_buffer(buffer, tag);
    std::string late = cat("rank ", rank(), " waited ", seconds(options_.limit_s),
                           " for the sum of ", describe(tag), " over the ranks ", join(members));
    return std::make_unique<CheckedReduction>(inner_->all_reduce_sum(buffer, members, tag),
                                              options_.limit_s, std::move(late));
  }

  void abort(const std::string& why) noexcept override { inner_->abort(why); }

 private:
  std::string describe(Tag tag) const {
    return options_.describe ? options_.describe(tag) : cat("tag ", tag);
  }

  void check_peer(std::string_view action, int peer) const {
    if (peer < 0 || peer >= size()) {
      refuse("rank ", rank(), " cannot ", action, " rank ", peer, "; there are ", size(),
             " ranks, from 0");
    }
    if (peer == rank()) {
      refuse("rank ", rank(), " cannot ", action, " itself; expected another rank");
    }
  }

  void check_outgoing(const Message& message, int to, Tag tag) const {
    const std::string what = cat("message ", describe(tag), " from rank ", rank(), " to ", to);
    if (!is_known(message.dtype)) {
      refuse(what, " has the unknown dtype ", static_cast<int>(message.dtype));
    }
    if (!is_possible(message)) {
      refuse(what, " has the impossible shape [", join(message.shape), "]");
    }
    if (!message) refuse(what, " has no bytes of its own; expected an owner that keeps them alive");
    if (message.data == nullptr && message.bytes() > 0) {
      refuse(what, " has no data; its shape needs ", message.bytes(), " bytes");
    }
  }

  void check_incoming(const Message& message, int from, Tag tag) {
    const auto expect = [&] {
      return cat("rank ", rank(), " expected message ", describe(tag), " from rank ", from);
    };
    const std::uint64_t place = ++received_[static_cast<std::size_t>(from)];
    const Envelope& envelope = message.envelope;
    if (envelope.sequence == 0) {
      blame_peer(expect(),
                 ", but what came was not sent by a checked transport; all ranks of a job "
                 "use the same transport");
    }
    if (envelope.sequence != place) {
      blame_peer(expect(), ", number ", place, " of its channel, but number ", envelope.sequence,
                 " came (", describe(message.tag),
                 "): messages were lost, doubled or reordered on "
                 "the way");
    }
    if (message.tag != tag) {
      blame_peer(expect(), ", but ", describe(message.tag),
                 " came: the two ranks disagree about the order of messages; verify the schedule");
    }
    if (!is_known(message.dtype) || !is_possible(message) || message.bytes() != envelope.bytes ||
        (message.data == nullptr && envelope.bytes > 0)) {
      blame_peer(expect(), " with the ", envelope.bytes, " bytes that were sent, but its shape [",
                 join(message.shape), "] does not hold them: it was changed on the way");
    }
    if (envelope.checksum != 0 && checksum(bytes_of(message)) != envelope.checksum) {
      blame_peer(expect(), ", but its ", envelope.bytes,
                 " bytes are not those that were sent (their checksum differs): they were changed "
                 "on the way, or while they were sent; suspect memory, network, or a race");
    }
  }

  void check_members(std::span<const int> members, Tag tag) const {
    const auto refuse_members = [&](std::string_view expected) {
      refuse("rank ", rank(), " cannot sum ", describe(tag), " over the ranks [", join(members),
             "]; expected ", expected);
    };
    const bool ascending =
        std::ranges::adjacent_find(members, std::ranges::greater_equal()) == members.end();
    if (!ascending) refuse_members("them in ascending order, each once");
    if (!std::ranges::binary_search(members, rank())) refuse_members("this rank among them");
    if (members.front() < 0 || members.back() >= size()) {
      refuse_members(cat("ranks from 0 to ", size() - 1));
    }
  }

  void check_buffer(const Buffer& buffer, Tag tag) const {
    const std::string what = cat("the buffer of rank ", rank(), " for the sum of ", describe(tag));
    if (!is_known(buffer.dtype)) {
      refuse(what, " has the unknown dtype ", static_cast<int>(buffer.dtype));
    }
    if (buffer.data == nullptr && buffer.elements > 0) {
      refuse(what, " has no data; expected ", buffer.elements, " elements of ",
             info(buffer.dtype).name);
    }
  }

  const std::unique_ptr<Transport> inner_;
  const CheckedOptions options_;
  std::vector<std::uint64_t> sent_;      // messages so far, by receiver
  std::vector<std::uint64_t> received_;  // messages so far, by sender
  std::vector<Patience> patience_;       // by sender
};

}  // namespace

std::unique_ptr<Transport> checked(std::unique_ptr<Transport> inner, CheckedOptions options) {
  if (!(options.limit_s > 0)) {
    refuse("the time limit of the transport is ", options.limit_s, " s; expected more than 0");
  }
  return std::make_unique<CheckedTransport>(std::move(inner), std::move(options));
}

}  // namespace chimera
