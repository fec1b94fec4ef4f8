// Which random stream serves what in the model (base/random.h), so that no two uses share draws.
#pragma once

#include <cstdint>

#include "chimera/base/random.h"

namespace chimera {

// The places of GPT-2 where dropout acts. A block has the last three.
enum class DropoutSite : std::uint8_t { kEmbedding, kAttention, kAttentionOutput, kMlpOutput };

// For parameter `index` of a layer (global index): one draw an element.
[[nodiscard]] inline RandomStream initial_values_stream(std::uint64_t seed, int layer, int index) {
  constexpr std::uint32_t kUse = 0x49000000;
  return {seed, static_cast<std::uint32_t>(layer), kUse + static_cast<std::uint32_t>(index)};
}

// For the dropout mask of one sequence at one place in one step: one word an element.
[[nodiscard]] inline RandomStream dropout_stream(std::uint64_t seed, std::int64_t step, int layer,
                                                 DropoutSite site, std::int64_t sample) {
  constexpr std::uint32_t kUse = 0x44000000;
  const std::uint32_t place =
      static_cast<std::uint32_t>(layer) * 4 + static_cast<std::uint32_t>(site);
  return {seed, static_cast<std::uint32_t>(step), kUse + place, static_cast<std::uint32_t>(sample)};
}

}  // namespace chimera
