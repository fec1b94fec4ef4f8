// watched: a transport that notes on a PositionBoard when its rank waits, and for whom. A
// decorator, put around all others.
#pragma once

#include <memory>

#include "chimera/runtime/position.h"
#include "chimera/transport/transport.h"

namespace chimera {

// Owns `inner`; the board outlives it.
[[nodiscard]] std::unique_ptr<Transport> watched(std::unique_ptr<Transport> inner,
                                                 PositionBoard& board, int slot);

}  // namespace chimera
