#include "chimera/transport/mpi/memory_pool.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "chimera/transport/message.h"

namespace chimera {

struct MemoryPool::State {
  std::mutex mutex;
  std::multimap<std::size_t, std::shared_ptr<void>> kept = {};  // by size
  std::size_t kept_bytes = 0;
  std::size_t used_bytes = 0;
  std::size_t most_used_bytes = 0;

  void drop_until_allowed() {
    while (!kept.empty() && used_bytes + kept_bytes > most_used_bytes) {
      kept_bytes -= kept.begin()->first;
      kept.erase(kept.begin());
    }
  }

  std::shared_ptr<void> take(std::size_t bytes) {
    const std::lock_guard lock(mutex);
    used_bytes += bytes;
    most_used_bytes = std::max(most_used_bytes, used_bytes);
    auto node = kept.extract(bytes);
    if (!node.empty()) {
      kept_bytes -= bytes;
      return std::move(node.mapped());
    }
    drop_until_allowed();
    return nullptr;
  }

  void give_back(std::size_t bytes, std::shared_ptr<void> memory) {
    const std::lock_guard lock(mutex);
    used_bytes -= bytes;
    kept_bytes += bytes;
    kept.emplace(bytes, std::move(memory));
    drop_until_allowed();
  }
};

MemoryPool::MemoryPool() : state_(std::make_shared<State>()) {}

std::shared_ptr<void> MemoryPool::get(std::size_t bytes) {
  std::shared_ptr<void> memory = state_->take(bytes);
  if (!memory) memory = make_message(DType::kUInt8, {static_cast<std::int64_t>(bytes)}).owner;
  void* data = memory.get();
  return {data, [state = state_, bytes, memory = std::move(memory)](void*) mutable {
            state->give_back(bytes, std::move(memory));
          }};
}

std::size_t MemoryPool::kept_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->kept_bytes;
}

}  // namespace chimera
