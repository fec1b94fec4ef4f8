// The twin that stands in for MPI says what to do.
#include <gtest/gtest.h>

#include <string>

#include "chimera/base/error.h"
#include "chimera/transport/mpi.h"

namespace chimera {
namespace {

TEST(NoMpi, SaysThatThisBuildHasNoneAndWhatToInstall) {
  try {
    const MpiProcess process;
    FAIL() << "started MPI";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    const std::string text = error.what();
    EXPECT_NE(text.find("this build has no MPI"), std::string::npos) << text;
    EXPECT_NE(text.find("libopenmpi-dev"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace chimera
