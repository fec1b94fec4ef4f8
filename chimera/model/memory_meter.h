// Memory meter: the bytes of CPU tensors that each worker holds, as libtorch asks for them.
//
// Once installed, every block that libtorch allocates on the CPU is charged to the account of the
// thread that asks for it, and credited to that same account when it is freed, by whichever thread.
// A message travels between workers by handing its block over: adopt() moves the charge along.
// Alignment and libtorch's own small objects are not counted, nor what its libraries allocate on
// the side; memory of other devices is not.
//
// Cheap enough to be always on: some 0.1 us a block. All functions may be called from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "chimera/simulate/timeline.h"
#include "chimera/transport/message.h"

namespace chimera {

// What one worker holds. Blocks keep their account alive, so it may be let go of at any time.
class Account {
 public:
  [[nodiscard]] std::int64_t bytes() const;
  // Most bytes held at a time since construction or the last reset_peak().
  [[nodiscard]] std::int64_t peak_bytes() const;
  void reset_peak();

  // From now on notes each change, in seconds of the steady clock, beginning with what is held now.
  void start_sampling();
  // Stops, and gives what was noted.
  [[nodiscard]] std::vector<Level> stop_sampling();

  // For the meter alone: bytes came, or (negative) went.
  void change(std::int64_t bytes);

 private:
  mutable std::mutex mutex_;
  std::int64_t bytes_ = 0;
  std::int64_t peak_bytes_ = 0;
  bool sampling_ = false;
  std::vector<Level> levels_;
};

// Puts the meter before libtorch's allocator, once and for good: later calls do nothing. Blocks
// that are there already stay valid and uncounted. To be called before threads that use tensors.
void install_memory_meter();

// The calling thread's account, until the end of the scope. Scopes nest; without one nothing is
// counted.
class AccountScope {
 public:
  explicit AccountScope(std::shared_ptr<Account> account);
  ~AccountScope();
  AccountScope(const AccountScope&) = delete;
  AccountScope& operator=(const AccountScope&) = delete;

 private:
  std::shared_ptr<Account> before_;
};

// Moves the charge for a message's bytes to the calling thread's account; with none, to nobody's.
// Bytes that are not a tensor's (make_message) are charged for as long as the message's owner,
// which is wrapped for that, is kept by anyone. Does nothing while the meter is not installed.
void adopt(Message& message);

}  // namespace chimera
