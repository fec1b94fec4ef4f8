// The table of contents of a checkpoint, manifest.json: what the run was, which files there are and
// how they are known to be whole, and where each tensor lies. A value. The format is documented,
// field by field, in docs/formats.md.
//
// A manifest ends with a checksum of itself, so that every byte of a checkpoint is covered by one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "chimera/base/dtype.h"
#include "chimera/storage/tensor_file.h"

namespace chimera {

// Where a tensor is, and what it is.
struct TensorPlace {
  std::string file;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;

  friend bool operator==(const TensorPlace&, const TensorPlace&) = default;
};

// What the run read; zeros: not known.
struct DataIdentity {
  std::int64_t fingerprint = 0;
  std::int64_t windows = 0;

  friend bool operator==(const DataIdentity&, const DataIdentity&) = default;
};

struct Manifest {
  static constexpr int kFormat = 1;

  std::string program;  // version of the program that wrote it
  std::int64_t step = 0;
  std::int64_t samples = 0;  // seen so far
  std::uint64_t seed = 0;
  DataIdentity data;
  std::map<std::string, std::string> model;  // keys and values of [model]
  std::string config;                        // the whole configuration, as TOML
  std::map<std::string, FileDigest> files;
  std::map<std::string, TensorPlace> tensors;

  friend bool operator==(const Manifest&, const Manifest&) = default;
};

[[nodiscard]] std::string print(const Manifest& manifest);

// Throws Error (kData) that begins with `source`, the name for messages, and says what is wrong.
[[nodiscard]] Manifest parse_manifest(std::string_view text, const std::string& source);

}  // namespace chimera
