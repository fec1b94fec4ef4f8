// The contract over threads: one a rank.
#include <gtest/gtest.h>

#include <thread>

#include "chimera/transport/contract.h"
#include "chimera/transport/emulated_links.h"
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

// Links that cost a little.
void run_on_emulated_links(int ranks, const RankProgram& program) {
  EmulatedLinks links(ranks,
                      {.message = [](int, int, Tag, std::size_t) -> EmulatedCosts::OfMessage {
                         return {2e-5, 1e-4};
                       },
                       .sum = [](std::span<const int> members, Tag,
                                 std::size_t) { return members.size() > 1 ? 1e-4 : 0; }});
  const RankProgram emulated = [&](Transport& inner) {
    PacedClock clock;
    program(*links.transport(inner, clock));
  };
  run_on_threads(ranks, emulated, [](std::unique_ptr<Transport> inner) { return inner; });
}

}  // namespace

std::vector<ContractKind> contract_kinds() {
  std::vector<ContractKind> kinds = kinds_of("local", run_on_threads);
  kinds.push_back({"emulated_local", run_on_emulated_links});
  return kinds;
}

}  // namespace chimera
