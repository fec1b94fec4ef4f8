// Lets MPI get on: whoever waits asks it in turns, and while nobody waits a thread does, seldom
// when nothing is under way. Internal to transport/mpi.
//
// One lock guards MPI and all that the parts of the transport keep (requests, messages, sums), so
// MPI is never in two threads at once. It is held for one look at all operations, and for the
// adding up of a chunk.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "chimera/base/clock.h"
#include "chimera/transport/mpi/backoff.h"
#include "chimera/transport/mpi/requests.h"

namespace chimera {

class MpiEngine {
 public:
  using Lock = std::unique_lock<std::mutex>;

  // `crowded`: see backoff.h.
  explicit MpiEngine(bool crowded) : crowded_(crowded) {}
  ~MpiEngine() { stop(); }
  MpiEngine(const MpiEngine&) = delete;
  MpiEngine& operator=(const MpiEngine&) = delete;

  // Before start(): what is called at each look, and with each fault that a look brings up. Both
  // with the lock held.
  void at_each_look(std::function<void()> call) { at_each_look_ = std::move(call); }
  void on_error(MpiRequests::OnError call) { on_error_ = std::move(call); }

  // The thread.
  void start();
  void stop();

  [[nodiscard]] Lock lock() { return Lock(mutex_); }

  // The rest with the lock held.
  [[nodiscard]] MpiRequests& requests() { return requests_; }
  bool look();

  // Looks until done() is true, or wait_s seconds have passed: false. Looks once at least.
  template <class Done>
  bool wait(Lock& lock, double wait_s, const Done& done);

 private:
  // In scope while a thread looks for itself.
  class Waiting {
   public:
    explicit Waiting(MpiEngine& engine) : engine_(engine) { ++engine_.waiting_; }
    ~Waiting() {
      --engine_.waiting_;
      if (engine_.parked_) engine_.unpark();
    }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    MpiEngine& engine_;
  };

  void look_until_stopped();
  void unpark();

  const bool crowded_;
  std::mutex mutex_;
  MpiRequests requests_;
  std::function<void()> at_each_look_;
  MpiRequests::OnError on_error_;

  // Threads in wait(). The engine's own is parked while there are any; each side changes its own
  // number first and then reads the other's, so none is missed.
  std::atomic<int> waiting_ = 0;
  std::atomic<bool> parked_ = false;
  std::mutex sleep_mutex_;  // guards what follows
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

template <class Done>
bool MpiEngine::wait(Lock& lock, double wait_s, const Done& done) {
  const Waiting waiting(*this);
  const double end_s = now_s() + wait_s;
  Backoff backoff(crowded_);
  for (;;) {
    const bool moved = look();
    if (done()) return true;
    if (moved) {
      backoff.reset();
      continue;
    }
    if (now_s() >= end_s) return false;
    const bool busy = requests_.work() > 0;
    lock.unlock();
    backoff.pause(busy);
    lock.lock();
  }
}

}  // namespace chimera
