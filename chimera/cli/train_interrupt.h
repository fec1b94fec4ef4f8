// Ctrl-C and its like: the first ends a training run after the step under way, a second at once.
#pragma once

namespace chimera {

// For SIGINT and SIGTERM, and for SIGUSR1, which mpirun and srun hand on to all processes.
void catch_interrupts();

[[nodiscard]] bool interrupted();

}  // namespace chimera
