// A small machine and model drawn at random, for the planner to plan. The same seed and number, the
// same machine.
//
// 2 to 8 devices and up to 7 blocks more; a head of up to three blocks; links slow or fast beside
// the computation; memory from just enough for some plan without recompute to plenty. Of each four
// machines in a row one has one kind of device and of link, one devices with differing memory, one
// two nodes with slower links between them, and one both.
#pragma once

#include <cstdint>

#include "chimera/plan/plan.h"

namespace chimera {

[[nodiscard]] bool has_differing_memory(const Machine& machine);

// All plans are wanted (PlanRequest::most), and there is at least one.
[[nodiscard]] PlanRequest random_request(std::uint64_t seed, int number);

}  // namespace chimera
