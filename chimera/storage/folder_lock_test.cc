#include "chimera/storage/folder_lock.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "chimera/base/error.h"

namespace chimera {
namespace {

TEST(FolderLock, IsHadByOneAtATime) {
  std::string folder = testing::TempDir() + "/folder-lock-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  {
    const FolderLock first(folder);
    try {
      const FolderLock second(folder);
      ADD_FAILURE() << "had twice";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      EXPECT_NE(std::string(error.what()).find("another run"), std::string::npos);
    }
  }
  const FolderLock after(folder);
  FolderLock moved;
  moved = FolderLock(FolderLock());
  EXPECT_THROW(FolderLock(folder + "/none"), Error);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace chimera
