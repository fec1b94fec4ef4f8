#include "chimera/data/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "chimera/base/error.h"
#include "chimera/base/text.h"

namespace chimera {
namespace {

std::size_t checked_size(const Descriptor& file, const std::string& path, std::string_view what) {
  struct stat status = {};
  if (::fstat(file.number(), &status) != 0) throw_system_error("examine", path);
  if (S_ISDIR(status.st_mode)) {
    throw Error(ErrorCode::kData,
                cat("the ", what, " '", path, "' is a folder; name one file in it"));
  }
  if (!S_ISREG(status.st_mode)) {
    throw Error(ErrorCode::kData, cat("the ", what, " '", path,
                                      "' is a pipe or a device, which cannot be mapped; "
                                      "write it to a regular file first"));
  }
  if (status.st_size == 0) {
    throw Error(ErrorCode::kData,
                cat("the ", what, " '", path, "' is empty; name a file with content"));
  }
  return static_cast<std::size_t>(status.st_size);
}

}  // namespace

void throw_system_error(std::string_view verb, const std::string& path) {
  const std::string reason = std::generic_category().message(errno);
  throw Error(ErrorCode::kIo, cat("cannot ", verb, " '", path, "': ", reason));
}

Descriptor::Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

MappedFile MappedFile::open(const std::string& path, std::string_view what) {
  // Not blocking: opening a pipe that nobody writes to would wait for ever.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number() < 0) throw_system_error(cat("open the ", what), path);
  return MappedFile(file, path, what);
}

MappedFile::MappedFile(const Descriptor& file, std::string path, std::string_view what)
    : path_(std::move(path)), size_(checked_size(file, path_, what)) {
  void* data = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.number(), 0);
  if (data == MAP_FAILED) throw_system_error(cat("map the ", what), path_);
  data_ = static_cast<const unsigned char*>(data);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<unsigned char*>(data_), size_);
}

std::string_view MappedFile::text() const { return {reinterpret_cast<const char*>(data_), size_}; }

Descriptor make_unnamed_file() {
  std::error_code failure;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(failure);
  if (failure) {
    throw Error(ErrorCode::kIo, cat("there is no folder for temporary files: ", failure.message(),
                                    "; set TMPDIR to one that can be written"));
  }
  std::string path = (folder / "chimera-XXXXXX").string();
  Descriptor file(::mkostemp(path.data(), O_CLOEXEC));
  if (file.number() < 0) throw_system_error("create a temporary file", path);
  if (::unlink(path.c_str()) != 0) throw_system_error("remove the name of", path);
  return file;
}

void write_all(const Descriptor& file, std::span<const unsigned char> bytes,
               const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file.number(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_system_error("write", path);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

}  // namespace chimera
