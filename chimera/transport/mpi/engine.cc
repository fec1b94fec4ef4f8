#include "chimera/transport/mpi/engine.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>

namespace chimera {
namespace {

// Between two looks of the thread: after something moved, at most while something is under way, and
// at most while nothing is (a message may come that its taker will want at once).
constexpr double kSoonSeconds = 50e-6;
constexpr double kBusySeconds = 1e-3;
constexpr double kIdleSeconds = 2e-3;

}  // namespace

void MpiEngine::start() {
  thread_ = std::thread([this] { look_until_stopped(); });
}

void MpiEngine::stop() {
  {
    const std::lock_guard lock(sleep_mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void MpiEngine::unpark() {
  { const std::lock_guard lock(sleep_mutex_); }  // it is not about to fall asleep
  wake_.notify_one();
}

bool MpiEngine::look() {
  const bool moved = requests_.poll(on_error_);
  at_each_look_();
  return moved;
}

void MpiEngine::look_until_stopped() {
  prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  double pause_s = kSoonSeconds;
  std::unique_lock sleep(sleep_mutex_);
  for (;;) {
    wake_.wait_for(sleep, std::chrono::duration<double>(pause_s));
    if (stop_) return;
    if (waiting_ > 0) {
      parked_ = true;
      wake_.wait(sleep, [this] { return stop_ || waiting_ == 0; });
      parked_ = false;
      pause_s = kBusySeconds;  // it may wait again at once
      continue;
    }
    sleep.unlock();
    bool moved = false, busy = false;
    {
      const Lock held = lock();
      moved = look();
      busy = requests_.work() > 0;
    }
    pause_s = moved ? kSoonSeconds : std::min(pause_s * 1.5, busy ? kBusySeconds : kIdleSeconds);
    sleep.lock();
  }
}

}  // namespace chimera
