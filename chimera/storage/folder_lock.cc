#include "chimera/storage/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "chimera/base/clock.h"
#include "chimera/base/error.h"
#include "chimera/base/text.h"

namespace chimera {
namespace {

constexpr double kPatienceSeconds = 5;
constexpr std::chrono::milliseconds kPause{50};

}  // namespace

FolderLock::FolderLock(const std::string& folder) {
  const std::string path = folder + "/lock";
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0) {
    throw Error(ErrorCode::kIo, cat("cannot write '", path, "': ", std::strerror(errno)));
  }
  const double end_s = now_s() + kPatienceSeconds;
  while (::flock(file_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    if (now_s() > end_s) {
      ::close(std::exchange(file_, -1));
      throw Error(ErrorCode::kUsage,
                  cat("another run writes its checkpoints to '", folder, "' (it holds the lock '",
                      path, "'); wait for its end, or name another train.checkpoint_folder"));
    }
    std::this_thread::sleep_for(kPause);
  }
}

FolderLock::~FolderLock() {
  if (file_ >= 0) ::close(file_);
}

FolderLock::FolderLock(FolderLock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}

FolderLock& FolderLock::operator=(FolderLock&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}

}  // namespace chimera
