// Background: one piece of work on a thread of its own, while its owner does something else and
// looks at it now and then.
//
// wait() and the destructor are the owner's alone. What the work throws, wait() throws. Work that
// makes no progress for too long is given up: wait() says so. The destructor asks the work to end
// at its next sign of progress, and waits for that.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace chimera {

class Background {
 public:
  // To be called by the work whenever it got a bit further. Throws when it should end.
  using Progress = std::function<void()>;
  using Work = std::function<void(const Progress&)>;

  // `what` is for the message: "writing 'FILE'". Throws Error (kCompute) where there are no
  // threads left.
  Background(std::string what, double stall_limit_s, Work work);
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;
  ~Background();

  // Waits up to wait_s seconds; true: done. Throws what the work threw, each time; throws Error
  // (kTimeout) if there was no progress for the limit.
  [[nodiscard]] bool wait(double wait_s);

 private:
  void run(const Work& work);

  const std::string what_;
  const double stall_limit_s_;
  std::atomic<bool> cancelled_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;        // these three under the mutex
  double progressed_s_ = 0;  // when, in seconds of the steady clock
  std::exception_ptr failed_;
  std::thread thread_;
};

}  // namespace chimera
