// A permutation of [0, size) that is computed, not stored: a Feistel network with cycle walking.
//
// Let b be the bits that size - 1 needs. An index is split into its b - b/2 high and its b/2 low
// bits; rounds alternate
//
//     high ^= F(round, low)        low ^= F(round, high)        F: Philox, keyed by seed and epoch
//
// and as each round undoes itself, all of them are a bijection of [0, 2^b) whatever F is. A result
// that is not below size goes through again; following the cycle this way ends below size, since
// the index the walk began with lies on it, and is again a bijection, now of [0, size). As 2^b is
// less than 2 size, a walk takes less than two passes on average. (Black & Rogaway, "Ciphers with
// arbitrary finite domains", CT-RSA 2002.)
//
//     size 5, seed 4:   0 -> 3    1 -> 2    2 -> 4    3 -> 0    4 -> 1
//
// So an epoch over any number of windows needs no array, and any sample of any epoch is found at
// once, for example after a restart. Covered by permutation_test.cc.
#pragma once

#include <cstdint>

namespace chimera {

class Permutation {
 public:
  // size >= 1.
  Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch);

  // index < size.
  [[nodiscard]] std::uint64_t operator()(std::uint64_t index) const;

 private:
  [[nodiscard]] std::uint64_t pass(std::uint64_t index) const;
  [[nodiscard]] std::uint64_t mix(std::uint32_t round, std::uint64_t half) const;

  std::uint64_t size_, seed_, epoch_;
  int low_bits_;
  std::uint64_t low_mask_, high_mask_;
};

}  // namespace chimera
