// How many bytes a worker holds, and the most it ever held: a count of claims, not of memory. What
// it counts is said by those that hold: stages, messages, steps. Any thread may use it.
#pragma once

#include <algorithm>
#include <mutex>

namespace chimera {

class ByteMeter {
 public:
  explicit ByteMeter(double bytes = 0) : held_(bytes), peak_(bytes) {}

  // Less, where negative.
  void add(double bytes) {
    const std::lock_guard lock(mutex_);
    held_ += bytes;
    peak_ = std::max(peak_, held_);
  }

  [[nodiscard]] double peak() const {
    const std::lock_guard lock(mutex_);
    return peak_;
  }

 private:
  mutable std::mutex mutex_;
  double held_, peak_;
};

// Held for as long as this is in scope.
class HeldBytes {
 public:
  HeldBytes(ByteMeter* meter, double bytes) : meter_(meter), bytes_(bytes) { add(bytes_); }
  ~HeldBytes() { add(-bytes_); }
  HeldBytes(const HeldBytes&) = delete;
  HeldBytes& operator=(const HeldBytes&) = delete;

 private:
  void add(double bytes) const {
    if (meter_ != nullptr && bytes != 0) meter_->add(bytes);
  }

  ByteMeter* meter_;  // or null: nothing is counted
  double bytes_;
};

}  // namespace chimera
