// The twin that stands in for hwloc says that it is one.
#include <gtest/gtest.h>

#include "chimera/runtime/cores.h"

namespace chimera {
namespace {

TEST(NoHwloc, SaysThatThisBuildHasNone) {
  EXPECT_EQ(bind_to_share(0, 1), "not bound: built without hwloc");
}

}  // namespace
}  // namespace chimera
