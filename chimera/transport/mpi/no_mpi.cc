// What stands in for transport/mpi in a build without MPI.
#include "chimera/base/error.h"
#include "chimera/transport/mpi.h"

namespace chimera {
namespace {

[[noreturn]] void refuse_mpi() {
  throw Error(ErrorCode::kUsage,
              "this build has no MPI; install an MPI (on Debian libopenmpi-dev and openmpi-bin, "
              "which tools/setup.sh does), then configure and build again with -DCHIMERA_MPI=ON");
}

}  // namespace

struct MpiProcess::State {};
MpiProcess::MpiProcess(double) { refuse_mpi(); }
MpiProcess::~MpiProcess() = default;
int MpiProcess::rank() const { refuse_mpi(); }
int MpiProcess::size() const { refuse_mpi(); }
int MpiProcess::local_rank() const { refuse_mpi(); }
int MpiProcess::local_size() const { refuse_mpi(); }

struct MpiWorld::State {};
MpiWorld::MpiWorld(MpiProcess&, MpiOptions) { refuse_mpi(); }
MpiWorld::~MpiWorld() = default;
std::unique_ptr<Transport> MpiWorld::transport() { refuse_mpi(); }
void MpiWorld::abort(const std::string&) noexcept {}
std::string MpiWorld::aborted() const { return {}; }
void MpiWorld::spread_aborts_by(std::function<void(const std::string&)>) {}

}  // namespace chimera
