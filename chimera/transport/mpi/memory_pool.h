// Memory for long messages that come in, used again once its taker has let go of it: to map and
// clear four megabytes anew takes the system as long as to copy them. Internal to transport/mpi.
//
// Holds no more at a time, in use and kept together, than was once in use. What it gave out may be
// let go in any thread, and may outlive the pool.
#pragma once

#include <cstddef>
#include <memory>

namespace chimera {

class MemoryPool {
 public:
  MemoryPool();

  // Uninitialised, aligned as make_message does; the last copy gives it back.
  [[nodiscard]] std::shared_ptr<void> get(std::size_t bytes);

  // Kept for later.
  [[nodiscard]] std::size_t kept_bytes() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace chimera
