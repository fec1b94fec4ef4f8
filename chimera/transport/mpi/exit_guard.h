// Ends the process if something takes too long that nothing else can end: a wait inside MPI for
// processes that never come. Internal to transport/mpi.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>

#include "chimera/base/error.h"

namespace chimera {

// In scope while the thing goes on.
class ExitGuard {
 public:
  // `what` is what the user is told then.
  ExitGuard(double limit_s, std::string what) : what_(std::move(what)) {
    thread_ = std::thread([this, limit_s] {
      std::unique_lock lock(mutex_);
      const std::chrono::duration<double> limit(std::min(limit_s, 1e9));  // the clock's end is near
      if (over_.wait_for(lock, limit, [this] { return is_over_; })) return;
      std::fprintf(stderr, "chimera: error: %s\n", what_.c_str());
      std::fflush(stderr);
      _exit(exit_code(ErrorCode::kTimeout));
    });
  }
  ~ExitGuard() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    over_.notify_one();
    thread_.join();
  }
  ExitGuard(const ExitGuard&) = delete;
  ExitGuard& operator=(const ExitGuard&) = delete;

 private:
  const std::string what_;
  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace chimera
