// The clock of everything that is measured: steady, in seconds. Readings of one process can be
// compared across threads.
#pragma once

#include <chrono>

namespace chimera {

[[nodiscard]] inline double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace chimera
