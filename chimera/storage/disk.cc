#include "chimera/storage/disk.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include "chimera/base/error.h"
#include "chimera/base/text.h"

namespace chimera {
namespace {

const char* advice(int reason) {
  switch (reason) {
    case ENOSPC:
    case EDQUOT:
      return "; free some space, or name a folder on another disk";
    case EACCES:
    case EPERM:
    case EROFS:
      return "; name a folder that can be written";
    case ENOENT:
      return "; was it moved or removed?";
    default:
      return "";
  }
}

[[noreturn]] void fail_disk(std::string_view verb, const std::string& path) {
  const int reason = errno;
  throw Error(ErrorCode::kIo,
              cat("cannot ", verb, " '", path, "': ", std::strerror(reason), advice(reason)));
}

// A descriptor that is closed when it goes.
class Handle {
 public:
  explicit Handle(int number) : number_(number) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (number_ >= 0) ::close(number_);
  }
  [[nodiscard]] int get() const { return number_; }
  [[nodiscard]] int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

class RealFile final : public NewFile {
 public:
  explicit RealFile(const std::string& path)
      : path_(path), handle_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
    if (handle_.get() < 0) fail_disk("write", path_);
  }
  void write(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t count = ::write(handle_.get(), bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail_disk("write", path_);
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
  }
  void sync() override {
    if (::fsync(handle_.get()) != 0) fail_disk("sync", path_);
  }
  void close() override {
    if (::close(handle_.release()) != 0) fail_disk("write", path_);
  }

 private:
  std::string path_;
  Handle handle_;
};

struct stat examine(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) fail_disk("read", path);
  return found;
}

}  // namespace

void RealDisk::make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) fail_disk("make the folder", path);
}

std::unique_ptr<NewFile> RealDisk::create(const std::string& path) {
  return std::make_unique<RealFile>(path);
}

void RealDisk::rename(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail_disk(cat("rename '", from, "' to"), to);
}

void RealDisk::sync_folder(const std::string& path) {
  const Handle folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some network file systems cannot sync a folder, and say so; their servers keep names at once.
  if (folder.get() < 0 || (::fsync(folder.get()) != 0 && errno != EINVAL)) {
    fail_disk("sync the folder", path);
  }
}

void RealDisk::remove(const std::string& path) {
  if (std::remove(path.c_str()) != 0) fail_disk("remove", path);
}

std::vector<std::string> RealDisk::list(const std::string& folder) const {
  DIR* const open = ::opendir(folder.c_str());
  if (open == nullptr) fail_disk("list the folder", folder);
  std::vector<std::string> names;
  for (const dirent* entry = ::readdir(open); entry != nullptr; entry = ::readdir(open)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  ::closedir(open);
  std::sort(names.begin(), names.end());
  return names;
}

bool RealDisk::exists(const std::string& path) const {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0;
}

// A link to a folder is none: it is removed, not what it leads to.
bool RealDisk::is_folder(const std::string& path) const {
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode);
}

std::uint64_t RealDisk::size(const std::string& path) const {
  return static_cast<std::uint64_t>(examine(path).st_size);
}

std::size_t RealDisk::read(const std::string& path, std::uint64_t offset,
                           std::span<std::byte> bytes) const {
  const Handle file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) fail_disk("read", path);
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::pread(file.get(), bytes.data() + done, bytes.size() - done,
                                  static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_disk("read", path);
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  return done;
}

std::string path_in(const std::string& folder, const std::string& name) {
  if (folder.empty()) return name;
  return folder.ends_with('/') ? folder + name : cat(folder, "/", name);
}

namespace {

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

}  // namespace

std::string folder_of(const std::string& path) {
  const std::string bare = without_slashes(path);
  const auto slash = bare.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : bare.substr(0, slash);
}

std::string name_of(const std::string& path) {
  const std::string bare = without_slashes(path);
  return bare.substr(bare.rfind('/') + 1);  // npos + 1 == 0
}

std::string read_whole(const Disk& disk, const std::string& path) {
  std::string text(static_cast<std::size_t>(disk.size(path)), '\0');
  text.resize(disk.read(path, 0, std::as_writable_bytes(std::span(text))));
  return text;
}

void write_synced(Disk& disk, const std::string& path, std::string_view text) {
  const auto file = disk.create(path);
  file->write(std::as_bytes(std::span(text)));
  file->sync();
  file->close();
}

void remove_all(Disk& disk, const std::string& path) {
  if (disk.is_folder(path)) {
    for (const std::string& name : disk.list(path)) remove_all(disk, path_in(path, name));
  }
  disk.remove(path);
}

}  // namespace chimera
