// Why communication ended: the first reason given wins and never changes. Any thread, without a
// lock once it is there.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "chimera/base/error.h"

namespace chimera {

class AbortReason {
 public:
  void set(const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (is_set()) return;
    why_ = why;
    is_set_.store(true, std::memory_order_release);  // after the text, which is now constant
  }

  [[nodiscard]] bool is_set() const { return is_set_.load(std::memory_order_acquire); }
  [[nodiscard]] std::string text() const { return is_set() ? why_ : std::string(); }

  void throw_if_set() const {
    if (is_set()) throw Error(ErrorCode::kPeer, why_);
  }

 private:
  std::mutex mutex_;
  std::atomic<bool> is_set_ = false;
  std::string why_;
};

}  // namespace chimera
