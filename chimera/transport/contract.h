// The transports that transport_contract_test.cc is run over: for tests. Each program that has that
// file defines contract_kinds(): a new transport adds its name and its way of running a program.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "chimera/transport/checked.h"
#include "chimera/transport/faulty.h"
#include "chimera/transport/transport.h"

namespace chimera {

using RankProgram = std::function<void(Transport&)>;
using Decorate = std::function<std::unique_ptr<Transport>(std::unique_ptr<Transport>)>;

// Runs a program on so many ranks of a new world, its transports decorated. What a rank throws
// ends the others and fails the test.
using RunProgram = std::function<void(int ranks, const RankProgram&, const Decorate&)>;

struct ContractKind {
  std::string name;
  std::function<void(int ranks, const RankProgram&)> run;
};
inline void PrintTo(const ContractKind& kind, std::ostream* out) { *out << kind.name; }

inline constexpr double kContractLimitSeconds = 60;

// A transport as it is, checked, and with delays, which are no fault to those above.
inline std::vector<ContractKind> kinds_of(const std::string& name, const RunProgram& run) {
  const auto with = [run](const Decorate& decorate) {
    return
        [run, decorate](int ranks, const RankProgram& program) { run(ranks, program, decorate); };
  };
  const Decorate plain = [](std::unique_ptr<Transport> inner) { return inner; };
  const Decorate checks = [](std::unique_ptr<Transport> inner) {
    return checked(std::move(inner), {.limit_s = kContractLimitSeconds});
  };
  const Decorate delays = [](std::unique_ptr<Transport> inner) {
    const FaultPlan plan{
        .kind = FaultKind::kDelay, .probability = 0.2, .once = false, .seed = 5, .delay_s = 0.001};
    return checked(faulty(std::move(inner), plan),
                   {.limit_s = kContractLimitSeconds, .checksums = true});
  };
  return {
      {name, with(plain)}, {"checked_" + name, with(checks)}, {"delayed_" + name, with(delays)}};
}

[[nodiscard]] std::vector<ContractKind> contract_kinds();

}  // namespace chimera
