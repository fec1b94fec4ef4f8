// How many messages each channel of a program must be able to hold. A part of verify (verify.h).
#pragma once

#include <vector>

#include "chimera/schedule/verify.h"

namespace chimera {

// Sets the capacity of each channel. Requires a program whose rows, channels and progress are
// proved, and all of its channels.
void find_capacities(const Program& program, std::vector<Channel>& channels);

}  // namespace chimera
