// Messages over MPI. Internal to transport/mpi.
//
// What a message is (tag, type, shape, envelope) travels in front of its bytes as a short message,
// with the bytes if they fit, for MPI's own tags have 15 bits to rely on. Longer ones follow as
// messages of their own, in parts of at most part_bytes, since MPI counts in int. MPI keeps the
// order of a pair of ranks, so the receiver posts what was announced in the order of the
// announcements, at once and into the message's own memory: it is there when the worker asks.
#pragma once

#include <mpi.h>

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "chimera/transport/message.h"
#include "chimera/transport/mpi/engine.h"
#include "chimera/transport/mpi/inbox.h"
#include "chimera/transport/mpi/memory_pool.h"

namespace chimera {

class MpiMessages {
 public:
  MpiMessages(MpiEngine& engine, MPI_Comm comm, std::size_t part_bytes);

  // With the engine's lock held. Throws Error (kUsage) for shapes of more than 16 dimensions.
  void send(Message message, int to);

  // With the engine's lock held: whether the next message from a rank is there, and that message.
  [[nodiscard]] bool has(int from) const;
  [[nodiscard]] Message take(int from);

 private:
  struct Incoming {
    Message message;
    std::size_t missing_parts = 0;
  };
  using Channel = std::deque<std::shared_ptr<Incoming>>;

  void announced(std::span<const std::byte> bytes, int from);
  [[nodiscard]] Message fresh(DType dtype, std::vector<std::int64_t> shape);
  [[nodiscard]] const Channel& channel(int from) const {
    return channels_[static_cast<std::size_t>(from)];
  }

  MpiEngine& engine_;
  const MPI_Comm comm_;
  const std::size_t part_bytes_;
  MemoryPool pool_;
  std::vector<Channel> channels_;  // by sender
  MpiInbox inbox_;                 // last: it may call announced() as soon as it is there
};

}  // namespace chimera
