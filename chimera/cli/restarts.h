// chimera train --restarts: runs the training as a child, and starts it again from its last good
// checkpoint when it fails.
//
// Stands on the launcher's side: it has no part in the run, which may be many processes on other
// machines, and knows of it only how it ends.
#pragma once

#include <string>
#include <vector>

namespace chimera {

struct RestartOptions {
  int restarts = 0;         // at most
  std::string launch = {};  // words before the program, as "mpirun -n 8"
  std::string checkpoints;  // train.checkpoint_folder
};

// `arguments` are those of this program after its name, without the options above. Returns the exit
// code of the last run. Only runs that failed (4) or were killed are started again: not after wrong
// use (2), wrong files or data (3), or what a launcher says of itself (1, 127). Throws Error (kIo)
// if the command cannot be started.
[[nodiscard]] int run_with_restarts(const std::vector<std::string>& arguments,
                                    const RestartOptions& options);

}  // namespace chimera
