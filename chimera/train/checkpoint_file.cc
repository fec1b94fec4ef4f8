#include "chimera/train/checkpoint_file.h"

#include <set>
#include <utility>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/storage/disk.h"
#include "chimera/train/checkpoint_names.h"

namespace chimera {
namespace {

std::string tensor_text(const std::vector<std::int64_t>& shape, DType dtype) {
  return cat("shape [", join(shape), "] and type ", info(dtype).name);
}

}  // namespace

CheckpointFile::CheckpointFile(std::string path, Manifest manifest)
    : path_(std::move(path)), manifest_(std::move(manifest)) {}

const SafetensorsFile& CheckpointFile::file(const std::string& name) {
  const auto found = files_.find(name);
  if (found != files_.end()) return found->second;
  return files_.emplace(name, SafetensorsFile(path_in(path_, name))).first->second;
}

void CheckpointFile::check_tensor(const std::string& name, const std::vector<std::int64_t>& shape,
                                  DType dtype) {
  const auto found = manifest_.tensors.find(name);
  if (found == manifest_.tensors.end()) {
    throw Error(ErrorCode::kData, cat("the checkpoint '", path_, "' has no tensor '", name,
                                      "', expected one of ", tensor_text(shape, dtype)));
  }
  const TensorPlace& place = found->second;
  if (place.shape != shape || place.dtype != dtype) {
    throw Error(ErrorCode::kData, cat("the checkpoint '", path_, "' has tensor '", name, "' of ",
                                      tensor_text(place.shape, place.dtype), ", expected ",
                                      tensor_text(shape, dtype)));
  }
}

void CheckpointFile::check(std::span<const ParameterSpec> parameters, DType dtype) {
  std::set<std::string> expected;
  for (const ParameterSpec& parameter : parameters) {
    for (const std::string& name :
         {parameter.name, first_moment(parameter.name), second_moment(parameter.name)}) {
      check_tensor(name, parameter.shape, dtype);
      expected.insert(name);
    }
  }
  std::set<std::string> parts;
  for (const auto& [name, place] : manifest_.tensors) {
    parts.insert(place.file);
    if (expected.contains(name)) continue;
    throw Error(ErrorCode::kData, cat("the checkpoint '", path_, "' has tensor '", name,
                                      "', which the model has not"));
  }
  for (const std::string& part : parts) {
    for (const auto& [name, entry] : file(part).entries()) {
      const auto place = manifest_.tensors.find(name);
      if (place != manifest_.tensors.end() && place->second.file == part) continue;
      throw Error(ErrorCode::kData, cat("the checkpoint '", path_, "' has tensor '", name, "' in '",
                                        part, "', where its manifest has none of that name"));
    }
  }
}

at::Tensor CheckpointFile::read(const std::string& name, const std::vector<std::int64_t>& shape) {
  const auto found = manifest_.tensors.find(name);
  if (found == manifest_.tensors.end() || found->second.shape != shape) {
    throw Error(ErrorCode::kData, cat("the checkpoint '", path_, "' has no tensor '", name,
                                      "' of shape [", join(shape), "]"));
  }
  const TensorPlace& place = found->second;
  const SafetensorsFile& part = file(place.file);
  const auto entry = part.entries().find(name);
  if (entry == part.entries().end() || entry->second.shape != place.shape ||
      entry->second.dtype != place.dtype) {
    throw Error(ErrorCode::kData,
                cat("the checkpoint '", path_, "' has no tensor '", name, "' in '", place.file,
                    "' with ", tensor_text(place.shape, place.dtype)));
  }
  return part.read(name);
}

}  // namespace chimera
