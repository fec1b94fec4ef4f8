// CHECK(condition): a statement about our own code, never reachable from a user's input.
// A failed check prints file, line and condition, and aborts, in every build type.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace chimera {

[[noreturn]] inline void check_failed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: CHECK failed: %s (a bug in Chimera; please report it)\n", file, line,
               condition);
  std::abort();
}

}  // namespace chimera

// libtorch's headers bring a CHECK of their own, which writes another text; ours replaces it.
#undef CHECK
#define CHECK(condition) \
  ((condition) ? (void)0 : ::chimera::check_failed(__FILE__, __LINE__, #condition))
