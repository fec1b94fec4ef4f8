// The contract over threads: one a rank.
#include <gtest/gtest.h>

#include <thread>

#include "chimera/transport/contract.h"
#include "chimera/transport/local.h"

namespace chimera {
namespace {

void run_on_threads(int ranks, const RankProgram& program, const Decorate& decorate) {
  LocalWorld world(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const std::unique_ptr<Transport> transport = decorate(world.transport(rank));
      try {
        program(*transport);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
        transport->abort(error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

std::vector<ContractKind> contract_kinds() { return kinds_of("local", run_on_threads); }

}  // namespace chimera
