// CRC-32C (Castagnoli): the checksum of iSCSI (RFC 3720), ext4 and LevelDB. It finds damage, not
// forgery: all bursts up to 32 bits, and others but for one in 2^32. A gigabyte takes about a
// second or less, so it costs little beside reading a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace chimera {

// Of `bytes` after what `before` is the checksum of; 0 is that of nothing. So it can be taken of a
// file in pieces.
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);
[[nodiscard]] std::uint32_t crc32c(std::string_view text);

// As eight hexadecimal digits, "e3069283".
[[nodiscard]] std::string crc_text(std::uint32_t crc);

}  // namespace chimera
