// A checkpoint that is read: tensors by global name, wherever they lie. Believes the manifest no
// more than the files: both must say the same of each tensor. Throws Error (kIo, kData).
#pragma once

#include <map>
#include <span>
#include <string>

#include "chimera/model/safetensors.h"
#include "chimera/shape/parameters.h"
#include "chimera/storage/manifest.h"

namespace chimera {

class CheckpointFile {
 public:
  // `path` is the step's folder.
  CheckpointFile(std::string path, Manifest manifest);

  [[nodiscard]] const Manifest& manifest() const { return manifest_; }
  [[nodiscard]] const std::string& path() const { return path_; }

  // It has exactly these parameters and their moments: nothing missing, nothing more, with these
  // shapes and this type; and its files have exactly what the manifest says.
  void check(std::span<const ParameterSpec> parameters, DType dtype);

  // Of this shape.
  [[nodiscard]] at::Tensor read(const std::string& name, const std::vector<std::int64_t>& shape);

 private:
  [[nodiscard]] const SafetensorsFile& file(const std::string& name);
  void check_tensor(const std::string& name, const std::vector<std::int64_t>& shape, DType dtype);

  std::string path_;
  Manifest manifest_;
  std::map<std::string, SafetensorsFile> files_;  // as they are asked for
};

}  // namespace chimera
