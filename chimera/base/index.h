// Stages, workers and the like are ints, as the schedule language has them; containers want
// std::size_t.
#pragma once

#include <cstddef>

namespace chimera {

[[nodiscard]] constexpr std::size_t as_index(int value) { return static_cast<std::size_t>(value); }

}  // namespace chimera
