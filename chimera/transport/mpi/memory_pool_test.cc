#include "chimera/transport/mpi/memory_pool.h"

#include <gtest/gtest.h>

#include <optional>

namespace chimera {
namespace {

TEST(MemoryPool, GivesMemoryOutAgainOnceItIsLetGo) {
  MemoryPool pool;
  std::shared_ptr<void> first = pool.get(1000);
  const void* const place = first.get();
  EXPECT_NE(pool.get(1000).get(), place);
  first.reset();
  EXPECT_EQ(pool.kept_bytes(), 2000U);
  const std::shared_ptr<void> again = pool.get(1000), other = pool.get(1000);
  EXPECT_TRUE(again.get() == place || other.get() == place);
  EXPECT_EQ(pool.kept_bytes(), 0U);
}

TEST(MemoryPool, HoldsNoMoreThanWasOnceInUse) {
  MemoryPool pool;
  { const auto a = pool.get(1000), b = pool.get(500); }
  EXPECT_EQ(pool.kept_bytes(), 1500U);
  const auto larger = pool.get(1200);
  EXPECT_LE(pool.kept_bytes(), 300U);
}

TEST(MemoryPool, MayBeGoneBeforeItsMemoryIs) {
  std::optional<MemoryPool> pool(std::in_place);
  const std::shared_ptr<void> memory = pool->get(100);
  pool.reset();
  static_cast<char*>(memory.get())[99] = 1;
}

}  // namespace
}  // namespace chimera
