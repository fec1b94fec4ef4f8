// What travels between ranks. A Message owns its bytes: the local transport hands the owner over
// and copies nothing, others send from the bytes. A Buffer is a view that its holder keeps alive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "chimera/base/dtype.h"

namespace chimera {

// Says what a message or reduction is for. The same on both sides; its form is the caller's.
using Tag = std::uint64_t;

// What the checked decorator writes when it sends and compares when it receives. Transports carry
// it along unread.
struct Envelope {
  std::uint64_t sequence = 0;  // place in the channel, from 1; 0: not sent by a checked transport
  std::uint64_t bytes = 0;     // size of the message when it was sent
  std::uint64_t checksum = 0;  // of these bytes (checksum.h); 0: none taken
};

struct Message {
  Tag tag = 0;  // set by Transport::send
  DType dtype = DType::kUInt8;
  std::vector<std::int64_t> shape;  // elements along each dimension
  std::byte* data = nullptr;        // dense, row-major, in `owner`
  std::shared_ptr<void> owner;      // keeps the bytes alive; the last copy frees them
  Envelope envelope;                // the checked decorator's

  [[nodiscard]] std::size_t elements() const {
    std::size_t product = 1;
    for (const std::int64_t extent : shape) product *= static_cast<std::size_t>(extent);
    return product;
  }
  [[nodiscard]] std::size_t bytes() const { return elements() * info(dtype).bytes; }
  // False for "no message": what the first stage receives and the last one sends.
  [[nodiscard]] explicit operator bool() const { return owner != nullptr; }
};

// A message with fresh, uninitialised bytes of its own, aligned for any element and vector width.
[[nodiscard]] Message make_message(DType dtype, std::vector<std::int64_t> shape);

struct Buffer {
  DType dtype = DType::kFloat32;
  std::byte* data = nullptr;
  std::size_t elements = 0;

  [[nodiscard]] std::size_t bytes() const { return elements * info(dtype).bytes; }
};

}  // namespace chimera
