// The times of what is on its way travel beside it, in queues that every rank can reach: channels
// and sums keep their order, so the first of a queue belongs to what comes first.
//
// Test: emulated_links_test.cc, with clocks that are set by hand; and the transports' contract.
#include "chimera/transport/emulated_links.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "chimera/base/check.h"
#include "chimera/base/turns.h"

namespace chimera {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();

// The times of a sum; shared by its members.
struct SumTimes {
  std::size_t begun = 0;  // members that have
  double ready_s = 0;
  double end_s = kUnknown;
};

}  // namespace

struct EmulatedLinks::State {
  State(int ranks, EmulatedCosts those)
      : costs(std::move(those)), sums(static_cast<std::size_t>(ranks), costs.sums_at_once) {}

  using Ends = std::pair<int, int>;
  struct Channel {
    Turns turns;
    std::deque<double> arrivals;
  };
  // Calls with the same members and tag match in order.
  struct Rounds {
    std::deque<std::shared_ptr<SumTimes>> begun_by_some;
    std::map<int, std::size_t> next;  // by rank, of the rounds above
  };

  void send(Ends ends, Tag tag, std::size_t bytes, double now_s) {
    const EmulatedCosts::OfMessage cost = costs.message(ends.first, ends.second, tag, bytes);
    const std::lock_guard lock(mutex);
    Channel& channel = channels[ends];
    channel.arrivals.push_back(channel.turns.end(now_s, cost.busy_s) + cost.latency_s);
  }

  // Of the next message, which has been sent.
  double arrival(Ends ends) {
    const std::lock_guard lock(mutex);
    auto& arrivals = channels[ends].arrivals;
    CHECK(!arrivals.empty());
    const double first = arrivals.front();
    arrivals.pop_front();
    return first;
  }

  std::shared_ptr<SumTimes> begin(int rank, std::span<const int> members, Tag tag,
                                  std::size_t bytes, double now_s) {
    const double cost_s = costs.sum(members, tag, bytes);
    const std::lock_guard lock(mutex);
    Rounds& rounds = sums_of[{tag, {members.begin(), members.end()}}];
    const std::size_t round = rounds.next[rank]++;
    if (round == rounds.begun_by_some.size()) {
      rounds.begun_by_some.push_back(std::make_shared<SumTimes>());
    }
    std::shared_ptr<SumTimes> times = rounds.begun_by_some[round];
    times->ready_s = std::max(times->ready_s, now_s);
    if (++times->begun == members.size()) {  // so it is the first: all have begun those before
      times->end_s = sums.end(times->ready_s, members, cost_s);
      rounds.begun_by_some.pop_front();
      for (auto& [member, next] : rounds.next) --next;
    }
    return times;
  }

  // Of a sum that is done, and so begun by all.
  double end(const SumTimes& times) {
    const std::lock_guard lock(mutex);
    CHECK(times.end_s != kUnknown);
    return times.end_s;
  }

  const EmulatedCosts costs;
  std::mutex mutex;  // guards all below
  std::map<Ends, Channel> channels;
  std::map<std::pair<Tag, std::vector<int>>, Rounds> sums_of;
  SharedTurns sums;
};

namespace {

// Whether the time has come before the deadline; waits for whichever is sooner.
bool came(RankClock& clock, double time_s, double deadline_s) {
  clock.wait_until(std::min(time_s, deadline_s));
  return time_s <= deadline_s;
}

class EmulatedReduction final : public Reduction {
 public:
  EmulatedReduction(std::unique_ptr<Reduction> inner, std::shared_ptr<SumTimes> times,
                    EmulatedLinks::State& state, RankClock& clock)
      : inner_(std::move(inner)), times_(std::move(times)), state_(state), clock_(clock) {}

  bool wait(double wait_s) override {
    const double deadline_s = clock_.now_s() + wait_s;
    if (!added_up_ && !inner_->wait(wait_s)) return false;
    if (!added_up_) end_s_ = state_.end(*times_);
    added_up_ = true;
    return came(clock_, end_s_, deadline_s);
  }

  double done_s() const override { return end_s_; }

 private:
  const std::unique_ptr<Reduction> inner_;
  const std::shared_ptr<SumTimes> times_;
  EmulatedLinks::State& state_;
  RankClock& clock_;
  bool added_up_ = false;
  double end_s_ = kUnknown;
};

class EmulatedTransport final : public Transport {
 public:
  EmulatedTransport(EmulatedLinks::State& state, Transport& inner, RankClock& clock)
      : state_(state), inner_(inner), clock_(clock) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }

  void send(Message message, int to, Tag tag) override {
    state_.send({rank(), to}, tag, message.bytes(), clock_.now_s());
    inner_.send(std::move(message), to, tag);
  }

  std::optional<Message> recv(int from, Tag tag, double wait_s) override {
    const double deadline_s = clock_.now_s() + wait_s;
    auto underway = underway_.find(from);
    if (underway == underway_.end()) {
      std::optional<Message> message = inner_.recv(from, tag, wait_s);
      if (!message) return message;
      underway =
          underway_.emplace(from, Underway{std::move(*message), state_.arrival({from, rank()})})
              .first;
    }
    if (!came(clock_, underway->second.arrival_s, deadline_s)) return std::nullopt;
    Message message = std::move(underway->second.message);
    underway_.erase(underway);
    return message;
  }

  std::unique_ptr<Reduction> all_reduce_sum(Buffer buffer, std::span<const int> members,
                                            Tag tag) override {
    // Said before it is begun: another member may see it done at once.
    auto times = state_.begin(rank(), members, tag, buffer.bytes(), clock_.now_s());
    return std::make_unique<EmulatedReduction>(inner_.all_reduce_sum(buffer, members, tag),
                                               std::move(times), state_, clock_);
  }

  void abort(const std::string& why) noexcept override { inner_.abort(why); }

 private:
  // Here already, but in emulated time still on its way.
  struct Underway {
    Message message;
    double arrival_s;
  };

  EmulatedLinks::State& state_;
  Transport& inner_;
  RankClock& clock_;
  std::map<int, Underway> underway_;  // by sender
};

}  // namespace

EmulatedLinks::EmulatedLinks(int ranks, EmulatedCosts costs)
    : state_(std::make_unique<State>(ranks, std::move(costs))) {}
EmulatedLinks::~EmulatedLinks() = default;

std::unique_ptr<Transport> EmulatedLinks::transport(Transport& inner, RankClock& clock) {
  return std::make_unique<EmulatedTransport>(*state_, inner, clock);
}

}  // namespace chimera
