// Takes short messages from any rank, in the order in which each rank sent them. Internal to
// transport/mpi.
//
// Receives for them are always posted, in a ring: MPI fills posted receives in order, and they are
// looked at in order, so it does not matter that MPI may report their ends in another.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "chimera/transport/mpi/engine.h"

namespace chimera {

// Of a short message, tag and all: small enough that MPI sends it at once (Open MPI's limit within
// a machine is 4096 with its own header, others' limits are higher).
inline constexpr std::size_t kShortBytes = 4000;
inline constexpr int kShortTag = 0;

class MpiInbox {
 public:
  using Take = std::function<void(std::span<const std::byte> message, int from)>;

  // `take` may not keep the bytes.
  MpiInbox(MpiEngine& engine, MPI_Comm comm, std::size_t longest_bytes, Take take);

 private:
  struct Slot {
    std::shared_ptr<std::vector<std::byte>> bytes;
    std::size_t length = 0;
    int from = 0;
    bool ready = false;
  };

  void post(std::size_t index);
  void arrived(std::size_t index, const MPI_Status& status);

  MpiEngine& engine_;
  const MPI_Comm comm_;
  const Take take_;
  std::vector<Slot> slots_;
  std::size_t next_ = 0;  // the slot that is filled next
};

// Sends a short message; it owns the bytes.
void send_short(MpiEngine& engine, MPI_Comm comm, std::shared_ptr<std::vector<std::byte>> bytes,
                int to, const void* owner);

// Appends a plain value as it lies in memory.
template <class T>
void put(std::vector<std::byte>& bytes, const T& value) {
  const auto* begin = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), begin, begin + sizeof value);
}

}  // namespace chimera
