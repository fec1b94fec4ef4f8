#include "chimera/base/rank_clock.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <thread>

#include "chimera/base/clock.h"

namespace chimera {
namespace {

// Of a processor, by the calling thread, in the kernel too.
double used_s() {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

}  // namespace

PacedClock::PacedClock() { set(chimera::now_s()); }

void PacedClock::set(double time_s) {
  set_s_ = time_s;
  used_s_ = used_s();
}

double PacedClock::now_s() { return set_s_ + (used_s() - used_s_); }

void PacedClock::wait_until(double time_s) {
  if (time_s <= now_s()) return;
  sleep_until(time_s);
  set(time_s);
}

double PacedClock::lag_s() { return std::max(0.0, chimera::now_s() - now_s()); }

void sleep_until(double time_s) {
  // The kernel may join timers within a thread's slack, 50 us unless told otherwise.
  thread_local const int slack = prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  static_cast<void>(slack);
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end(
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(time_s)));
  if (Clock::now() < end) std::this_thread::sleep_until(end);
}

}  // namespace chimera
