// Emulations that the machine left alone: one whose ranks were behind their own time, because
// others had the cores, is run again, and the one least behind counts. Which that is does not
// depend on the time and the bytes that were measured.
#pragma once

#include "chimera/runtime/emulate.h"

namespace chimera {

// Whether the ranks were behind by more than 1 % of a step.
[[nodiscard]] bool is_disturbed(const Emulation& emulation);

struct Undisturbed {
  Emulation emulation = {};
  int tries = 0;
};

// Ends with the first emulation that is not disturbed, or after so many.
[[nodiscard]] Undisturbed emulate_undisturbed(const EmulationSetting& setting, int most_tries);

}  // namespace chimera
