// The meter is an allocator before libtorch's own. Blocks stand in a table by their address, cut
// into shards with a lock each, for a block's free may come from any thread and a message's
// receiver knows nothing of it but where it lies. The address goes on to be the block's context, as
// with libtorch's allocator, which some of its callers rely on.
//
// Covered by memory_meter_test.cc.
#include "chimera/model/memory_meter.h"

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <unordered_map>
#include <utility>

#include "chimera/base/check.h"
#include "chimera/base/clock.h"

namespace chimera {
namespace {

thread_local std::shared_ptr<Account> current_account;

struct Block {
  std::int64_t bytes = 0;
  std::shared_ptr<Account> account;  // none: nobody's
};

void charge(const std::shared_ptr<Account>& account, std::int64_t bytes) {
  if (account) account->change(bytes);
}

// Never holds a shard's and an account's lock at a time.
class Blocks {
 public:
  void add(const void* address, Block block) {
    charge(block.account, block.bytes);
    Shard& shard = shard_of(address);
    const std::lock_guard lock(shard.mutex);
    shard.blocks.insert_or_assign(address, std::move(block));
  }

  void remove(const void* address) {
    Shard& shard = shard_of(address);
    std::unique_lock lock(shard.mutex);
    const auto node = shard.blocks.extract(address);
    lock.unlock();
    if (!node.empty()) charge(node.mapped().account, -node.mapped().bytes);
  }

  // False for an address where no block begins.
  bool move(const void* address, std::shared_ptr<Account> to) {
    Shard& shard = shard_of(address);
    std::unique_lock lock(shard.mutex);
    const auto found = shard.blocks.find(address);
    if (found == shard.blocks.end()) return false;
    const std::int64_t bytes = found->second.bytes;
    const std::shared_ptr<Account> from = std::exchange(found->second.account, to);
    lock.unlock();
    charge(from, -bytes);
    charge(to, bytes);
    return true;
  }

 private:
  struct Shard {
    std::mutex mutex;
    std::unordered_map<const void*, Block> blocks;
  };

  // Blocks begin at multiples of 64 bytes; large ones at multiples of 4096 and a bit.
  Shard& shard_of(const void* address) {
    const auto bits = reinterpret_cast<std::uintptr_t>(address);
    return shards_[(bits >> 6 ^ bits >> 12) % shards_.size()];
  }

  std::array<Shard, 64> shards_;
};

// Outlives all tensors, those in static objects too.
Blocks& blocks() {
  static auto* const all = new Blocks;
  return *all;
}

std::atomic<c10::DeleterFnPtr> free_block = nullptr;  // of the allocator behind; set when installed

class MeteredAllocator final : public c10::Allocator {
 public:
  explicit MeteredAllocator(c10::Allocator& behind) : behind_(behind) {
    CHECK(behind.raw_deleter() != nullptr);
    free_block = behind.raw_deleter();
  }

  c10::DataPtr allocate(std::size_t bytes) override {
    c10::DataPtr data = behind_.allocate(bytes);
    if (!data) return data;
    blocks().add(data.get(), {static_cast<std::int64_t>(bytes), current_account});
    CHECK(data.compare_exchange_deleter(free_block, &remove));
    return data;
  }

  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return &remove; }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  static void remove(void* address) {
    blocks().remove(address);
    free_block.load()(address);
  }

  c10::Allocator& behind_;
};

// A message's owner, and the charge for its bytes.
struct ChargedOwner {
  ChargedOwner(std::shared_ptr<void> kept, std::int64_t size, std::shared_ptr<Account> payer)
      : owner(std::move(kept)), bytes(size), account(std::move(payer)) {
    charge(account, bytes);
  }
  ~ChargedOwner() { charge(account, -bytes); }
  ChargedOwner(const ChargedOwner&) = delete;
  ChargedOwner& operator=(const ChargedOwner&) = delete;

  std::shared_ptr<void> owner;
  std::int64_t bytes;
  std::shared_ptr<Account> account;
};

}  // namespace

std::int64_t Account::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

std::int64_t Account::peak_bytes() const {
  const std::lock_guard lock(mutex_);
  return peak_bytes_;
}

void Account::reset_peak() {
  const std::lock_guard lock(mutex_);
  peak_bytes_ = bytes_;
}

void Account::start_sampling() {
  const std::lock_guard lock(mutex_);
  sampling_ = true;
  levels_ = {{now_s(), static_cast<double>(bytes_)}};
}

std::vector<Level> Account::stop_sampling() {
  const std::lock_guard lock(mutex_);
  sampling_ = false;
  return std::exchange(levels_, {});
}

void Account::change(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  bytes_ += bytes;
  peak_bytes_ = std::max(peak_bytes_, bytes_);
  if (sampling_) levels_.push_back({now_s(), static_cast<double>(bytes_)});
}

void install_memory_meter() {
  static const bool installed = [] {
    c10::SetCPUAllocator(new MeteredAllocator(*c10::GetCPUAllocator()));
    return true;
  }();
  CHECK(installed);
}

AccountScope::AccountScope(std::shared_ptr<Account> account)
    : before_(std::exchange(current_account, std::move(account))) {}

AccountScope::~AccountScope() { current_account = std::move(before_); }

void adopt(Message& message) {
  if (!message || message.bytes() == 0 || free_block == nullptr) return;
  if (blocks().move(message.data, current_account)) return;
  const auto charged = std::make_shared<ChargedOwner>(
      std::move(message.owner), static_cast<std::int64_t>(message.bytes()), current_account);
  message.owner = charged;
}

}  // namespace chimera
