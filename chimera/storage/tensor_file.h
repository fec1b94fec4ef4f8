// Writes tensors, as bytes with names, in the safetensors format (docs/formats.md; the reader is
// model/safetensors.h, which makes torch's tensors of them). Knows no torch.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "chimera/base/dtype.h"
#include "chimera/storage/disk.h"

namespace chimera {

struct TensorBytes {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes = {};  // dense and row-major; the caller keeps them alive
};

// What a file is known by.
struct FileDigest {
  std::uint64_t bytes = 0;
  std::uint32_t crc32c = 0;

  friend bool operator==(const FileDigest&, const FileDigest&) = default;
};

// Called with the bytes written and synced so far; what it throws ends the writing.
using WriteProgress = std::function<void(std::uint64_t bytes)>;

// A new file of that path, synced; its name is not. Throws Error (kIo).
FileDigest write_tensor_file(Disk& disk, const std::string& path,
                             std::span<const TensorBytes> tensors,
                             const std::map<std::string, std::string>& metadata,
                             const WriteProgress& progress = {});

// Reads the whole file.
[[nodiscard]] FileDigest digest_file(const Disk& disk, const std::string& path,
                                     const WriteProgress& progress = {});

}  // namespace chimera
