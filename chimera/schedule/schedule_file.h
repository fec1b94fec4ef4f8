// Schedules from files, in whichever form they are.
#pragma once

#include <string>

#include "chimera/schedule/schedule.h"

namespace chimera {

// CSV (csv_form.h) where the name ends in ".csv", else the text form (text_form.h); "-" is standard
// input. Throws Error (kIo, kUsage).
[[nodiscard]] Schedule read_schedule(const std::string& path);

}  // namespace chimera
