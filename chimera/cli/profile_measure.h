// Measures a configuration's profile on this machine (needs libtorch), and says what it found.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "chimera/job/config.h"
#include "chimera/plan/profile.h"

namespace chimera {

struct MeasureOptions {
  std::vector<int> sizes;  // sequences of a micro-batch, ascending
  int repeats = 20;
  int ranks = 1;  // that measure at once
  // The ranks are the processes of an MPI job, of which this is one; threads of this one otherwise.
  bool in_processes = false;
};

// 1, 2, 4 and so on to `most`, which is the last.
[[nodiscard]] std::vector<int> usual_sizes(int most);

// Prints a table to standard output. The model's vocabulary is known. In an MPI job all processes
// call it alike, and rank 0 alone prints and gets the profile. Throws Error.
[[nodiscard]] std::optional<Profile> measure_profile(const Config& config,
                                                     const MeasureOptions& options);

}  // namespace chimera
