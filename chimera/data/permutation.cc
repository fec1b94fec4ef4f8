#include "chimera/data/permutation.h"

#include <bit>

#include "chimera/base/check.h"
#include "chimera/base/random.h"

namespace chimera {
namespace {

constexpr std::uint32_t kRounds = 10;
constexpr std::uint32_t kUse = 0x50000000;  // apart from the streams of weights and dropout

constexpr std::uint64_t mask(int bits) { return (std::uint64_t{1} << bits) - 1; }

}  // namespace

Permutation::Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch)
    : size_(size), seed_(seed), epoch_(epoch) {
  CHECK(size >= 1);
  const int bits = static_cast<int>(std::bit_width(size - 1));
  low_bits_ = bits / 2;
  low_mask_ = mask(low_bits_);
  high_mask_ = mask(bits - low_bits_);
}

std::uint64_t Permutation::operator()(std::uint64_t index) const {
  CHECK(index < size_);
  do {
    index = pass(index);
  } while (index >= size_);
  return index;
}

std::uint64_t Permutation::pass(std::uint64_t index) const {
  std::uint64_t low = index & low_mask_;
  std::uint64_t high = index >> low_bits_;
  for (std::uint32_t round = 0; round < kRounds; round += 2) {
    high ^= mix(round, low) & high_mask_;
    low ^= mix(round + 1, high) & low_mask_;
  }
  return high << low_bits_ | low;
}

std::uint64_t Permutation::mix(std::uint32_t round, std::uint64_t half) const {
  const RandomStream stream(seed_, static_cast<std::uint32_t>(epoch_), kUse + round);
  return stream.block(half)[0];
}

}  // namespace chimera
