// What a fault at an action does (faults.h). To the process, so beware in tests.
#pragma once

#include <string>

namespace chimera {

// SIGKILL: no handler, no destructor, no last word.
[[noreturn]] void kill_self();

// Never returns, whatever signals come and are handled; the process can still end.
[[noreturn]] void stall();

// Throws the std::bad_alloc of a real allocation. Linux hands out memory that it does not have and
// kills whom it likes when it runs out (that is kill_self); an allocation fails only under a limit,
// so this sets one, RLIMIT_AS a little above what the process has, and allocates until it is
// reached. A bare `throw std::bad_alloc()` would leave out the allocator's own way to fail. What
// was allocated is freed, and the limit lifted, on the way out: then the error is on its own.
[[noreturn]] void use_up_memory();

}  // namespace chimera
