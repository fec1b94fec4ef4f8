// For test programs that ctest starts with mpiexec (chimera_mpi_test): all processes run all tests
// in step, and a failure in any fails the program. Its main() is in testing_main_test.cc.
#pragma once

#include "chimera/transport/mpi.h"

namespace chimera {

// This process, from before the first test until after the last.
[[nodiscard]] MpiProcess& mpi_process();

}  // namespace chimera
