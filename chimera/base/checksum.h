// A checksum of bytes in memory or on their way (for bytes on disk: crc32c.h): finds every change
// within one word of eight bytes, and others but for one in 2^64. No defence against someone who
// means it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace chimera {

// Never 0, which stands for "none". Each step is a bijection of the sum so far and of the word, so
// a change of one word cannot be lost.
[[nodiscard]] inline std::uint64_t checksum(std::span<const std::byte> bytes) {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15;
  std::uint64_t sum = kOdd;
  const auto add = [&](std::uint64_t word) {
    sum = (sum ^ word) * kOdd;
    sum ^= sum >> 32;
  };
  add(bytes.size());
  std::size_t i = 0;
  for (; i + sizeof(std::uint64_t) <= bytes.size(); i += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, sizeof word);
    add(word);
  }
  std::uint64_t rest = 0;
  if (i < bytes.size()) std::memcpy(&rest, bytes.data() + i, bytes.size() - i);
  add(rest);
  return sum == 0 ? 1 : sum;
}

}  // namespace chimera
