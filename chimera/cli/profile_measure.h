// Measures a configuration's profile on this machine (needs libtorch), and says what it found.
#pragma once

#include <string>
#include <vector>

#include "chimera/job/config.h"
#include "chimera/plan/profile.h"

namespace chimera {

struct MeasureOptions {
  std::vector<int> sizes;  // sequences of a micro-batch, ascending
  int repeats = 20;
  int ranks = 1;  // that measure at once, as threads
};

// Prints a table to standard output. The model's vocabulary is known. Throws Error.
[[nodiscard]] Profile measure_profile(const Config& config, const MeasureOptions& options);

// The configuration with the vocabulary of its data, where it leaves it open.
[[nodiscard]] Config with_vocabulary(Config config);

}  // namespace chimera
