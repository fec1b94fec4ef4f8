#include "chimera/runtime/watch.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "chimera/base/clock.h"
#include "chimera/base/text.h"

namespace chimera {
namespace {

std::string limit_text(double limit_s, const char* key) {
  return cat("; the limit is ", limit_s, " s (", key, ")");
}

// The rank of these that is in the phase longest.
std::optional<int> longest(std::span<const Position> positions, RankPhase phase) {
  std::optional<int> found;
  for (int rank = 0; rank < std::ssize(positions); ++rank) {
    const Position& position = positions[static_cast<std::size_t>(rank)];
    if (position.phase != phase) continue;
    if (!found || position.age_s > positions[static_cast<std::size_t>(*found)].age_s) found = rank;
  }
  return found;
}

// Of ranks that start, one that waits for no other.
std::optional<std::string> slow_start(std::span<const Position> positions, double startup_s) {
  std::optional<int> slow;
  for (int rank = 0; rank < std::ssize(positions); ++rank) {
    const Position& position = positions[static_cast<std::size_t>(rank)];
    if (position.phase != RankPhase::kStarting || position.age_s <= startup_s) continue;
    if (!slow || positions[static_cast<std::size_t>(*slow)].peer >= 0) slow = rank;
  }
  if (!slow) return {};
  return cat(describe(*slow, positions[static_cast<std::size_t>(*slow)]),
             ": it has not begun its first step", limit_text(startup_s, "limits.startup_seconds"));
}

std::optional<std::string> slow_work(std::span<const Position> positions, RankPhase phase,
                                     double limit_s, const char* key) {
  const auto rank = longest(positions, phase);
  if (!rank || positions[static_cast<std::size_t>(*rank)].age_s <= limit_s) return {};
  return cat(describe(*rank, positions[static_cast<std::size_t>(*rank)]), limit_text(limit_s, key),
             ": the rank has stalled; if it only needs longer, raise the limit");
}

// Where nobody does anything but wait.
std::optional<std::string> lost_wait(std::span<const Position> positions, double limit_s) {
  double shortest_s = 0;
  bool any = false;
  for (const Position& position : positions) {
    if (position.phase == RankPhase::kDone) continue;
    if (position.phase != RankPhase::kWaiting) return {};
    shortest_s = any ? std::min(shortest_s, position.age_s) : position.age_s;
    any = true;
  }
  if (!any || shortest_s <= limit_s) return {};
  const auto at = [&](int other) -> const Position& {
    return positions[static_cast<std::size_t>(other)];
  };
  const auto waits_for_message = [&](int other) {
    return at(other).phase == RankPhase::kWaiting && at(other).peer >= 0;
  };
  int rank = *longest(positions, RankPhase::kWaiting);
  // Who waits for a sum waits for those that wait for messages.
  for (int other = 0; other < std::ssize(positions) && !waits_for_message(rank); ++other) {
    if (waits_for_message(other)) rank = other;
  }
  std::set<int> seen = {rank};
  while (waits_for_message(rank) && waits_for_message(at(rank).peer) &&
         seen.insert(at(rank).peer).second) {
    rank = at(rank).peer;
  }
  const bool for_done = at(rank).peer >= 0 && at(at(rank).peer).phase == RankPhase::kDone;
  return cat(describe(rank, at(rank)), for_done ? ", which is done" : "",
             limit_text(limit_s, "limits.seconds"),
             ", and no rank computes: a message was lost, or ranks run different programs");
}

}  // namespace

std::optional<std::string> find_culprit(std::span<const Position> positions,
                                        const WatchLimits& limits) {
  if (auto why = slow_work(positions, RankPhase::kWorking, limits.limit_s, "limits.seconds")) {
    return why;
  }
  if (auto why = slow_start(positions, limits.startup_s)) return why;
  if (auto why =
          slow_work(positions, RankPhase::kLongWork, limits.startup_s, "limits.startup_seconds")) {
    return why;
  }
  return lost_wait(positions, limits.limit_s);
}

Watch::Watch(WatchOptions options)
    : options_(std::move(options)),
      pause_s_(std::clamp(options_.limits.limit_s / 40, 0.01, 0.25)),
      last_look_s_(now_s()) {
  thread_ = std::thread([this] { look_until_stopped(); });
}

Watch::~Watch() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Watch::look_until_stopped() {
  std::unique_lock lock(mutex_);
  const std::chrono::duration<double> pause(pause_s_);
  while (!wake_.wait_for(lock, pause, [this] { return stop_; })) {
    lock.unlock();
    look_once();
    lock.lock();
  }
}

void Watch::look_once() {
  const double now = now_s();
  // The whole process slept, as with Ctrl-Z: nobody could get on, so time begins anew.
  if (now - last_look_s_ > std::max(1.0, options_.limits.limit_s / 4)) {
    forgiven_until_s_ = now + options_.limits.limit_s;
  }
  last_look_s_ = now;
  const std::string aborted = options_.aborted ? options_.aborted() : std::string();
  if (!aborted.empty()) {
    if (aborted_s_ == 0) aborted_s_ = now;
    if (now - aborted_s_ > options_.grace_s) options_.hard_exit(aborted);
    return;
  }
  if (!options_.look || now < forgiven_until_s_) return;
  if (const auto why = find_culprit(options_.look(), options_.limits)) options_.on_stall(*why);
}

}  // namespace chimera
