// Ledger: what is held at a time, and the most so far. For predicting memory: code that would
// allocate takes bytes, code that would free gives them back. A plain value.
#pragma once

#include <algorithm>
#include <cstdint>

namespace chimera {

class Ledger {
 public:
  void take(std::int64_t bytes) {
    held_ += bytes;
    peak_ = std::max(peak_, held_);
  }
  void give(std::int64_t bytes) { held_ -= bytes; }

  [[nodiscard]] std::int64_t held() const { return held_; }
  [[nodiscard]] std::int64_t peak() const { return peak_; }
  void reset_peak() { peak_ = held_; }

 private:
  std::int64_t held_ = 0;
  std::int64_t peak_ = 0;
};

}  // namespace chimera
