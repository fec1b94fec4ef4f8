// How the program says that it failed: one line on the error stream, in the same form whether main
// ends it or, because a rank does not come back, the watch does.
#pragma once

#include <string>

namespace chimera {

// Thrown in place of an error whose line is on the error stream already.
struct Reported {
  int exit_code = 1;
};

// Takes no lock: the thread that is stuck may hold any. Of several processes each says its own,
// with its rank in front of all but rank 0's.
void report_error(const std::string& what);

}  // namespace chimera
