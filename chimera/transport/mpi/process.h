// What a process keeps of MPI beside its worlds. Internal to transport/mpi.
#pragma once

#include <vector>

#include "chimera/transport/mpi.h"
#include "chimera/transport/mpi/requests.h"

namespace chimera {

struct MpiProcess::State {
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;
  bool crowded = false;  // more ranks on this machine than cores
  bool finalize = true;  // all processes will get there
  // What worlds that were aborted left unfinished: MPI may touch that memory until it is finalized.
  std::vector<MpiRequests> unfinished = {};
};

}  // namespace chimera
