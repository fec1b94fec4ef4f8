// Runs one function on every rank of a local world, a thread each.
#pragma once

#include <functional>

#include "chimera/transport/checked.h"
#include "chimera/transport/transport.h"

namespace chimera {

// Returns when all ranks have returned. Where one throws, the others are told (Transport::abort),
// all threads are joined, and the first error is thrown on with its text.
void launch_local(int ranks, const CheckedOptions& options,
                  const std::function<void(Transport&)>& body);

}  // namespace chimera
