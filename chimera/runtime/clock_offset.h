// How far this rank's steady clock is ahead of rank 0's: clocks of different machines begin at
// different moments, and a timeline has one.
#pragma once

#include "chimera/transport/transport.h"

namespace chimera {

// In seconds, within half of the fastest round trip; 0 on rank 0. All ranks call it together.
[[nodiscard]] double clock_offset_s(Transport& transport);

}  // namespace chimera
