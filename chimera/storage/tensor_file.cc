#include "chimera/storage/tensor_file.h"

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>

#include "chimera/base/check.h"
#include "chimera/base/crc32c.h"

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

namespace chimera {
namespace {

constexpr const char* kMetadataName = "__metadata__";
// Synced on the way, so that a long file shows progress and ends soon when told to.
constexpr std::size_t kSyncedBytes = std::size_t{64} << 20;

std::string tensor_header(std::span<const TensorBytes> tensors,
                          const std::map<std::string, std::string>& metadata) {
  nlohmann::json header = nlohmann::json::object();
  if (!metadata.empty()) header[kMetadataName] = metadata;
  std::uint64_t begin = 0;
  for (const TensorBytes& tensor : tensors) {
    CHECK(tensor.name != kMetadataName && !header.contains(tensor.name));
    const std::uint64_t end = begin + tensor.bytes.size();
    header[tensor.name] = {{"dtype", info(tensor.dtype).safetensors},
                           {"shape", tensor.shape},
                           {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the data is aligned
  return text;
}

// A file that is synced every so often, and what it is known by.
class DigestedFile {
 public:
  DigestedFile(Disk& disk, const std::string& path, const WriteProgress& progress)
      : file_(disk.create(path)), progress_(progress) {}

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const auto piece = bytes.first(std::min(bytes.size(), kSyncedBytes - unsynced_));
      file_->write(piece);
      digest_.crc32c = crc32c(piece, digest_.crc32c);
      digest_.bytes += piece.size();
      unsynced_ += piece.size();
      if (unsynced_ == kSyncedBytes) sync();
      bytes = bytes.subspan(piece.size());
    }
  }

  FileDigest finish() {
    sync();
    file_->close();
    return digest_;
  }

 private:
  void sync() {
    file_->sync();
    unsynced_ = 0;
    if (progress_) progress_(digest_.bytes);
  }

  std::unique_ptr<NewFile> file_;
  const WriteProgress& progress_;
  FileDigest digest_;
  std::size_t unsynced_ = 0;
};

}  // namespace

FileDigest write_tensor_file(Disk& disk, const std::string& path,
                             std::span<const TensorBytes> tensors,
                             const std::map<std::string, std::string>& metadata,
                             const WriteProgress& progress) {
  const std::string header = tensor_header(tensors, metadata);
  const std::uint64_t length = header.size();
  DigestedFile file(disk, path, progress);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(std::as_bytes(std::span(header)));
  for (const TensorBytes& tensor : tensors) file.write(tensor.bytes);
  return file.finish();
}

FileDigest digest_file(const Disk& disk, const std::string& path, const WriteProgress& progress) {
  FileDigest digest;
  constexpr std::uint64_t kMostAtOnce = std::uint64_t{1} << 20;
  std::vector<std::byte> buffer(std::min(disk.size(path), kMostAtOnce) + 1);
  for (;;) {
    const std::size_t count = disk.read(path, digest.bytes, buffer);
    digest.crc32c = crc32c(std::span(buffer).first(count), digest.crc32c);
    digest.bytes += count;
    if (progress) progress(digest.bytes);
    if (count < buffer.size()) return digest;
  }
}

}  // namespace chimera
