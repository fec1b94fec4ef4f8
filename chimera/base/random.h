// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC11).
//
// A draw is a pure function of a key and a counter, so a value depends on what it is for (seed,
// layer, parameter, element; or seed, step, layer, sample) and never on who draws it or when. This
// is what makes initial weights, dropout masks and the order of data the same in every layout.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace chimera {

using PhiloxKey = std::array<std::uint32_t, 2>;
using PhiloxBlock = std::array<std::uint32_t, 4>;

// Ten rounds over one block of four 32-bit words.
[[nodiscard]] constexpr PhiloxBlock philox(PhiloxKey key, PhiloxBlock counter) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t left = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t right = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(right >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(right),
               static_cast<std::uint32_t>(left >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(left)};
    key = {key[0] + 0x9E3779B9U, key[1] + 0xBB67AE85U};
  }
  return counter;
}

// A stream of numbers for one purpose: `seed` and up to three words that say what it is for.
// A value; draws are indexed, so any thread may draw any element at any time.
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::uint32_t a, std::uint32_t b = 0, std::uint32_t c = 0)
      : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
        a_(a),
        b_(b),
        c_(c) {}

  // Four words; blocks of one stream with different indices (< 2^32) are independent.
  [[nodiscard]] PhiloxBlock block(std::uint64_t index) const {
    const PhiloxKey key = {key_[0], key_[1] ^ static_cast<std::uint32_t>(index >> 32)};
    return philox(key, {static_cast<std::uint32_t>(index), a_, b_, c_});
  }

  // Uniform in [0, 1) with 32 bits, for element `index`.
  [[nodiscard]] double uniform(std::uint64_t index) const {
    return block(index / 4)[index % 4] * 0x1.0p-32;
  }

  // Standard normal (Box-Muller with 53-bit radius) for element `index`.
  [[nodiscard]] double normal(std::uint64_t index) const {
    const PhiloxBlock words = block(index / 2);
    const std::uint64_t wide = (std::uint64_t{words[0]} << 21) ^ (words[1] >> 11);
    const double u = (static_cast<double>(wide) + 0.5) * 0x1.0p-53;
    const double radius = std::sqrt(-2.0 * std::log(u));
    const double angle = 2.0 * std::numbers::pi * (words[2] * 0x1.0p-32);
    return radius * (index % 2 == 0 ? std::cos(angle) : std::sin(angle));
  }

 private:
  PhiloxKey key_;
  std::uint32_t a_, b_, c_;
};

}  // namespace chimera
