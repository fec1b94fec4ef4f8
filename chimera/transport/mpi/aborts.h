// How an abort gets to all ranks, and why all get the same text though several may abort at once:
// rank 0 decides. Internal to transport/mpi.
//
// A rank that aborts asks rank 0; the first to ask wins, and rank 0 tells all. If rank 0 does not
// answer within a second (it has died, or is stopped), the rank's own text holds, and it tells all.
// The engine's lock is held, but for AbortReason, which any thread may read.
#pragma once

#include <mpi.h>

#include <memory>
#include <string>

#include "chimera/transport/abort_reason.h"
#include "chimera/transport/mpi/engine.h"

namespace chimera {

class MpiAborts {
 public:
  // Listens from now on. `comm` is for these messages alone.
  MpiAborts(MpiEngine& engine, MPI_Comm comm, AbortReason& reason);

  // Sets the reason soon: at once on rank 0, with the answer elsewhere.
  void ask(const std::string& why);

  // Sets the reason here and tells all, unless there is one already.
  void decide(const std::string& why);

  // At each look: an answer may be overdue.
  void look();

 private:
  void listen();
  void hear();
  void send(int to, std::shared_ptr<const std::string> why);

  MpiEngine& engine_;
  const MPI_Comm comm_;
  AbortReason& reason_;
  int rank_ = 0, size_ = 0;
  std::shared_ptr<std::string> heard_;  // where what comes is put
  std::string asked_ = {};
  double answer_due_s_ = 0;  // 0: nothing asked
};

}  // namespace chimera
