// How a thread waits that must look again and again: at once for a while, then it lets others run,
// then it sleeps, longer and longer. Internal to transport/mpi.
#pragma once

#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <ctime>

#include "chimera/base/clock.h"

namespace chimera {

// The kernel may join timers within a thread's slack, 50 us unless told otherwise.
inline void sleep_precisely(double seconds) {
  thread_local const int slack = prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  static_cast<void>(slack);
  const timespec time{.tv_sec = 0, .tv_nsec = static_cast<long>(std::min(seconds, 0.5) * 1e9)};
  nanosleep(&time, nullptr);
}

class Backoff {
 public:
  // Crowded: more ranks than cores on this machine, so whoever spins stands in another's way.
  explicit Backoff(bool crowded) : crowded_(crowded) {}

  // Something moved: look at once.
  void reset() { idle_since_s_ = 0; }

  // Nothing moved. `busy`: something is on its way; sleeps less.
  void pause(bool busy) {
    const double now = now_s();
    if (idle_since_s_ == 0) {
      idle_since_s_ = now;
      sleep_s_ = kShortestSeconds;
    }
    const double idle_s = now - idle_since_s_;
    if (!crowded_ && idle_s < kSpinSeconds) return;
    if (idle_s < (crowded_ && !busy ? kCrowdedYieldSeconds : kYieldSeconds)) {
      sched_yield();
      return;
    }
    sleep_precisely(sleep_s_);
    sleep_s_ = std::min(sleep_s_ * 1.5, busy ? kLongestBusySeconds : kLongestSeconds);
  }

 private:
  static constexpr double kSpinSeconds = 100e-6;
  static constexpr double kYieldSeconds = 500e-6;
  static constexpr double kCrowdedYieldSeconds = 20e-6;
  static constexpr double kShortestSeconds = 20e-6;
  static constexpr double kLongestBusySeconds = 100e-6;
  static constexpr double kLongestSeconds = 500e-6;

  bool crowded_;
  double idle_since_s_ = 0;
  double sleep_s_ = 0;
};

}  // namespace chimera
