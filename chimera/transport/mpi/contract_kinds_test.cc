// The contract over MPI processes: a test's program runs on the first so many of them, each time in
// a new world.
#include <gtest/gtest.h>

#include "chimera/transport/contract.h"
#include "chimera/transport/mpi/testing.h"

namespace chimera {
namespace {

void run_on_processes(int ranks, const RankProgram& program, const Decorate& decorate) {
  MpiWorld world(mpi_process(), {.ranks = ranks});
  if (mpi_process().rank() >= ranks) return;
  const std::unique_ptr<Transport> transport = decorate(world.transport());
  try {
    program(*transport);
  } catch (const std::exception& error) {
    ADD_FAILURE() << "rank " << transport->rank() << ": " << error.what();
  }
  if (testing::Test::HasFailure()) transport->abort("a check failed");  // others need not wait
}

}  // namespace

std::vector<ContractKind> contract_kinds() { return kinds_of("mpi", run_on_processes); }

}  // namespace chimera
