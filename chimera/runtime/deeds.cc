#include "chimera/runtime/deeds.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <new>
#include <vector>

namespace chimera {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{16} << 20;
constexpr std::size_t kRoomBytes = 4 * kBlockBytes;

// What RLIMIT_AS limits: the pages mapped by the process.
std::size_t mapped_bytes() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

class AddressSpaceLimit {
 public:
  explicit AddressSpaceLimit(std::size_t bytes) {
    getrlimit(RLIMIT_AS, &before_);
    rlimit limit = before_;
    limit.rlim_cur = std::min<rlim_t>(bytes, before_.rlim_max);
    setrlimit(RLIMIT_AS, &limit);
  }
  ~AddressSpaceLimit() { setrlimit(RLIMIT_AS, &before_); }
  AddressSpaceLimit(const AddressSpaceLimit&) = delete;
  AddressSpaceLimit& operator=(const AddressSpaceLimit&) = delete;

 private:
  rlimit before_{};
};

}  // namespace

void kill_self() {
  kill(getpid(), SIGKILL);
  std::abort();  // not reached
}

void stall() {
  for (;;) pause();
}

void use_up_memory() {
  const AddressSpaceLimit limit(mapped_bytes() + kRoomBytes);
  std::vector<std::unique_ptr<char[]>> blocks;
  for (;;) blocks.push_back(std::make_unique<char[]>(kBlockBytes));  // zeroed, so really there
}

}  // namespace chimera
