// The C library's allocator, set for training: what a step frees, the next one asks for again.
#pragma once

#include <malloc.h>

namespace chimera {

// Keeps freed memory in the process. By itself glibc's allocator gives the end of its memory back
// to the system and gets it again page by page, zeroed: of steps that hold much at a time some 4 %
// (halving), and more or less by chance. To be called before threads allocate.
inline void keep_freed_memory() {
#ifdef M_MMAP_THRESHOLD
  constexpr int kMost = 32 << 20;  // the largest that it takes
  ::mallopt(M_MMAP_THRESHOLD, kMost);
  ::mallopt(M_TRIM_THRESHOLD, 2'000'000'000);
#endif
}

}  // namespace chimera
