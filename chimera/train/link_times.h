// How long messages and all-reduces of a transport take, by size. All ranks call the same functions
// with the same arguments; the times come back on rank 0, elsewhere nothing does.
//
// The bytes are written and read on either side, as training does: ranks that are threads hand a
// message over by its address, and what it costs is that the receiver's core has to fetch it.
#pragma once

#include <vector>

#include "chimera/plan/profile.h"
#include "chimera/transport/transport.h"

namespace chimera {

// Of half a round trip between ranks 0 and 1. At least two ranks.
[[nodiscard]] std::vector<SizedTime> time_messages(Transport& transport,
                                                   const std::vector<std::size_t>& sizes,
                                                   int repeats);

// Of a sum over all ranks.
[[nodiscard]] std::vector<SizedTime> time_sums(Transport& transport,
                                               const std::vector<std::size_t>& sizes, int repeats);

// A hop of an all-reduce, such that rabenseifner_s (plan/layout.h) of it gives back these times of
// sums over `ranks`. Throws as fit_link does.
[[nodiscard]] LinkFit fit_hop(std::vector<SizedTime> sums, int ranks);

}  // namespace chimera
