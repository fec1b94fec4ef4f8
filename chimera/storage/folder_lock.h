// One run at a time in a checkpoint folder: two would take each other's files for left-overs.
//
// An advisory lock (flock) on a file in the folder, let go by the system with the process that has
// it, however that ends. On disks without such locks it is always had.
#pragma once

#include <string>

namespace chimera {

class FolderLock {
 public:
  FolderLock() = default;
  // Waits a few seconds, as a process that was killed may take to be gone. Throws Error (kUsage) if
  // another run has it, Error (kIo) if the file cannot be made.
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&& other) noexcept;

 private:
  int file_ = -1;
};

}  // namespace chimera
