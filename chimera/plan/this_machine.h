// The machine that this program runs on, as far as it can be known without a machine file.
#pragma once

#include "chimera/plan/machine.h"
#include "chimera/plan/profile.h"

namespace chimera {

// `ranks` devices on one node that share its memory evenly, and the links of the profile. Throws
// Error (kUsage) where there are several ranks and the profile has no links.
[[nodiscard]] Machine this_machine(const Profile& profile, int ranks);

}  // namespace chimera
