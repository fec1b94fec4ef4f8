// What the address sanitizer's search for leaks must know of MPI, whose libraries forget memory; in
// other builds nothing. What they forget later is named in cmake/mpi_leaks.txt.
#pragma once

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

namespace chimera {

// In scope while MPI starts: it loads plug-ins, which forget memory and are unloaded again, so that
// no name is left to suppress.
class IgnoreLeaks {
 public:
#ifdef __SANITIZE_ADDRESS__
  IgnoreLeaks() { __lsan_disable(); }
  ~IgnoreLeaks() { __lsan_enable(); }
#else
  IgnoreLeaks() {}
  ~IgnoreLeaks() {}
#endif
  IgnoreLeaks(const IgnoreLeaks&) = delete;
  IgnoreLeaks& operator=(const IgnoreLeaks&) = delete;
};

// For tests, before MpiProcess ends, which unloads the rest: ends the process if there are leaks.
inline void check_leaks_now() {
#ifdef __SANITIZE_ADDRESS__
  __lsan_do_leak_check();
#endif
}

}  // namespace chimera
