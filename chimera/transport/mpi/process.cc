#include "chimera/transport/mpi/process.h"

#include <unistd.h>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/transport/mpi/call.h"
#include "chimera/transport/mpi/exit_guard.h"
#include "chimera/transport/mpi/leaks.h"

namespace chimera {
namespace {

constexpr double kFinalizeSeconds = 20;

// Who else is on this machine.
void look_around(MpiProcess::State& state) {
  MPI_Comm machine = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine),
            "find the processes of this machine");
  MPI_Comm_rank(machine, &state.local_rank);
  MPI_Comm_size(machine, &state.local_size);
  MPI_Comm_free(&machine);
  // All cores: mpirun may have bound this process to one.
  state.crowded = state.local_size > sysconf(_SC_NPROCESSORS_ONLN);
}

}  // namespace

MpiProcess::MpiProcess(double startup_s) : state_(std::make_unique<State>()) {
  const ExitGuard guard(
      startup_s, cat("MPI did not start within ", startup_s,
                     " s, the limit: it waits for all processes of the job to start and to reach "
                     "each other; look at the other machines and the network between them, or "
                     "raise the limit of start-up"));
  const IgnoreLeaks of_mpi;
  int provided = MPI_THREAD_SINGLE;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "start");
  if (provided < MPI_THREAD_SERIALIZED) {
    throw Error(ErrorCode::kUsage,
                "this MPI cannot be used from more than one thread in turns "
                "(MPI_THREAD_SERIALIZED); expected one that can, so use another build of it");
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);  // worlds inherit it
  MPI_Comm_rank(MPI_COMM_WORLD, &state_->rank);
  MPI_Comm_size(MPI_COMM_WORLD, &state_->size);
  look_around(*state_);
}

MpiProcess::~MpiProcess() {
  if (!state_->finalize) return;
  const ExitGuard guard(kFinalizeSeconds,
                        "MPI did not end: another process of the job has stopped");
  MPI_Finalize();
}

int MpiProcess::rank() const { return state_->rank; }
int MpiProcess::size() const { return state_->size; }
int MpiProcess::local_rank() const { return state_->local_rank; }
int MpiProcess::local_size() const { return state_->local_size; }

}  // namespace chimera
