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
  IgnoreLeaks() { turn(false); }
  ~IgnoreLeaks() { turn(true); }
  IgnoreLeaks(const IgnoreLeaks&) = delete;
  IgnoreLeaks& operator=(const IgnoreLeaks&) = delete;

 private:
  static void turn([[maybe_unused]] bool on) {
#ifdef __SANITIZE_ADDRESS__
    on ? __lsan_enable() : __lsan_disable();
#endif
  }
};

// For tests, before MpiProcess ends, which unloads the rest: ends the process if there are leaks.
inline void check_leaks_now() {
#ifdef __SANITIZE_ADDRESS__
  __lsan_do_leak_check();
#endif
}

}  // namespace chimera
