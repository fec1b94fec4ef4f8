// Weight files in the safetensors format (https://github.com/huggingface/safetensors): eight bytes
// of header length (little-endian), a JSON header with name, type, shape and place of each tensor,
// then the tensors' bytes, dense and row-major.
//
// Files are written whole or not at all: under a temporary name, forced to disk, then renamed. A
// reader believes no file: each error names the file, what is wrong with it, and what it should be.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "chimera/base/dtype.h"
#include "chimera/model/store.h"
#include "chimera/shape/parameters.h"

namespace chimera {

using NamedTensors = std::map<std::string, at::Tensor>;
using Metadata = std::map<std::string, std::string>;

// Throws Error (kIo); then a file that was there before is as it was.
void write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                       const Metadata& metadata = {});

class SafetensorsFile {
 public:
  struct Entry {
    DType dtype = DType::kFloat32;
    std::vector<std::int64_t> shape;
    std::uint64_t begin = 0;  // in the file
    std::uint64_t bytes = 0;
  };

  // Reads and checks the header. Throws Error (kIo, kData).
  explicit SafetensorsFile(std::filesystem::path path);

  [[nodiscard]] const std::map<std::string, Entry>& entries() const { return entries_; }
  [[nodiscard]] const Metadata& metadata() const { return metadata_; }

  // A tensor of its own memory. Throws Error (kData) for a name that is not there.
  [[nodiscard]] at::Tensor read(const std::string& name) const;

 private:
  std::filesystem::path path_;
  std::map<std::string, Entry> entries_;
  Metadata metadata_;
};

// Fills the store's parameters from a file of all weights of the model `spec`. Throws Error
// (kData), with the store untouched, unless the file has exactly the model's parameters, by name
// and shape. Floating-point numbers of another type are converted.
void load_weights(const std::filesystem::path& path, const ModelSpec& spec, ParameterStore& store);

}  // namespace chimera
