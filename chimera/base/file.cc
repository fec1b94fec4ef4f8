#include "chimera/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "chimera/base/error.h"
#include "chimera/base/text.h"

namespace chimera {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(std::string_view verb, const std::string& path, int reason) {
  throw Error(ErrorCode::kIo, cat("cannot ", verb, " '", path, "': ", std::strerror(reason)));
}

// Owns a descriptor. close() reports, the destructor does not.
class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { close(); }

  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
  [[nodiscard]] int get() const { return descriptor_; }
  bool close() {
    const bool closed = descriptor_ < 0 || ::close(descriptor_) == 0;
    descriptor_ = -1;
    return closed;
  }

 private:
  int descriptor_;
};

// More than any text for people; what a device that never ends is stopped at.
constexpr std::size_t kMostBytes = std::size_t{1} << 30;

std::string read_all(int descriptor, const std::string& path) {
  std::string text;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t count = ::read(descriptor, buffer, sizeof buffer);
    if (count == 0) return text;
    if (count > 0) text.append(buffer, static_cast<std::size_t>(count));
    if (text.size() > kMostBytes) fail("read", path, EFBIG);
    if (count < 0 && errno != EINTR) fail("read", path, errno);
  }
}

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(descriptor, text.data(), text.size());
    if (count >= 0) text.remove_prefix(static_cast<std::size_t>(count));
    if (count < 0 && errno != EINTR) return false;
  }
  return true;
}

void write_directly(const std::string& path, std::string_view text) {
  File file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.is_open() || !write_all(file.get(), text) || !file.close()) fail("write", path, errno);
}

// mkstemp makes private files; this is what open would have given.
mode_t usual_permissions() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

bool fill(File& file, std::string_view text, mode_t permissions) {
  return write_all(file.get(), text) && ::fchmod(file.get(), permissions) == 0 && file.close();
}

// A new, private file in the folder of `path`; `name` becomes its name.
File temporary_beside(const std::string& path, std::string& name) {
  name = path + ".XXXXXX";
  const int descriptor = ::mkstemp(name.data());
  if (descriptor < 0) fail("write", path, errno);
  return File(descriptor);
}

void write_beside(const std::string& path, std::string_view text, mode_t permissions) {
  std::string temporary;
  File file = temporary_beside(path, temporary);
  if (fill(file, text, permissions) && ::rename(temporary.c_str(), path.c_str()) == 0) return;
  const int reason = errno;
  ::unlink(temporary.c_str());
  fail("write", path, reason);
}

}  // namespace

std::string read_file(const std::string& path) {
  if (path == "-") return read_all(STDIN_FILENO, "standard input");
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) fail("read", path, errno);
  return read_all(file.get(), path);
}

void check_writable(const std::string& path) {
  struct stat there {};
  if (::stat(path.c_str(), &there) == 0) {
    if (S_ISDIR(there.st_mode)) fail("write", path, EISDIR);
    if (::access(path.c_str(), W_OK) != 0) fail("write", path, errno);
    if (!S_ISREG(there.st_mode)) return;
  }
  std::string temporary;
  const File file = temporary_beside(path, temporary);
  ::unlink(temporary.c_str());
}

void write_file(const std::string& path, std::string_view text) {
  struct stat there {};
  if (::stat(path.c_str(), &there) != 0) return write_beside(path, text, usual_permissions());
  if (S_ISDIR(there.st_mode)) fail("write", path, EISDIR);
  if (!S_ISREG(there.st_mode)) return write_directly(path, text);
  // A link stays a link: what it leads to is replaced. A file keeps its permissions.
  std::error_code failed;
  const fs::path target = fs::canonical(path, failed);
  if (failed) fail("write", path, failed.value());
  if (::access(target.c_str(), W_OK) != 0) fail("write", path, errno);
  write_beside(target.string(), text, there.st_mode & 07777);
}

void deliver(std::string_view text, const std::string& path) {
  if (path.empty()) {
    std::cout << text;
  } else {
    write_file(path, text);
  }
}

}  // namespace chimera
