// The local transport: ranks are threads of one process.
//
// Messages are handed over without copying. Sums run on a thread of their own, helped by members
// that wait for them, so that gradients are reduced while workers compute.
#pragma once

#include <memory>

#include "chimera/transport/transport.h"

namespace chimera {

// What the ranks of one process share. Outlives the transports that it hands out.
class LocalWorld {
 public:
  explicit LocalWorld(int ranks);
  ~LocalWorld();
  LocalWorld(const LocalWorld&) = delete;
  LocalWorld& operator=(const LocalWorld&) = delete;

  // The transport of one rank, to be used by one thread. Once for each rank.
  [[nodiscard]] std::unique_ptr<Transport> transport(int rank);

  // As Transport::abort, from outside any rank.
  void abort(const std::string& why) noexcept;

  // The text of the first abort, or "".
  [[nodiscard]] std::string aborted() const;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace chimera
