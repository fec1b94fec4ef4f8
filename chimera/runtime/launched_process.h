// What a launcher (mpirun, srun) tells a process that it starts: which of how many it is.
//
// Read from the environment alone, so that it is known before, and without, MPI: for the transport
// that "auto" stands for, and to put the rank in front of errors.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace chimera {

struct LaunchedProcess {
  int rank = 0;
  int size = 1;
  std::string launcher;
};

// The value of an environment variable; null where there is none.
using Environment = std::function<const char*(const char*)>;

// Nothing where no launcher started this process.
[[nodiscard]] std::optional<LaunchedProcess> launched_process();
[[nodiscard]] std::optional<LaunchedProcess> launched_process(const Environment& environment);

}  // namespace chimera
