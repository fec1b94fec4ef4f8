// All-reduce over MPI: matches the calls of the members. Internal to transport/mpi.
//
// Each member announces its sum to the others (tag, type, size, members) in a short message, with
// the values if they fit. The announcements of a rank come in its order, so the n-th with these
// members and this tag belongs to the n-th call here. A member that announces something else for
// the same tag is found out by whoever hears both. What a sum then does is in sum_exchange.h.
#pragma once

#include <mpi.h>

#include <memory>
#include <span>
#include <vector>

#include "chimera/transport/mpi/engine.h"
#include "chimera/transport/mpi/inbox.h"
#include "chimera/transport/mpi/sum_exchange.h"
#include "chimera/transport/transport.h"

namespace chimera {

class MpiSums {
 public:
  MpiSums(MpiEngine& engine, MPI_Comm comm, const AbortReason& aborted);

  // Transport::all_reduce_sum, with the engine's lock held. Throws Error (kPeer) if members
  // contradict each other; the caller then aborts.
  [[nodiscard]] std::unique_ptr<Reduction> begin(Buffer buffer, std::span<const int> members,
                                                 Tag tag);

 private:
  using Exchange = std::shared_ptr<MpiSumExchange>;

  void announced(std::span<const std::byte> bytes, int from);
  [[nodiscard]] Exchange find_or_open(int rank, const SumTerms& terms);
  void close_if_complete(const MpiSumExchange& sum);

  ScratchPool scratch_;
  SumWire wire_;
  const AbortReason& aborted_;
  int next_stream_ = 0;
  std::vector<Exchange> open_;  // some members have not come; oldest first
  MpiInbox inbox_;              // last: it may call announced() as soon as it is there
};

}  // namespace chimera
