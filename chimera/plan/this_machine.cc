#include "chimera/plan/this_machine.h"

#include <unistd.h>

#include <algorithm>

#include "chimera/base/error.h"
#include "chimera/base/text.h"

namespace chimera {

Machine this_machine(const Profile& profile, int ranks) {
  const bool knows_links = profile.p2p && profile.reduce;
  if (ranks > 1 && !knows_links) {
    throw Error(ErrorCode::kUsage,
                cat("the profile has no ", profile.p2p ? "[all_reduce]" : "[p2p]",
                    ", so what messages cost on this machine is not known; profile on it "
                    "(chimera profile), or name a machine (--machine)"));
  }
  Machine machine;
  machine.name = "this machine";
  machine.source = "its memory, and the links of the profile";
  machine.devices_per_node = std::max(1, ranks);
  const double memory =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  machine.memory_bytes = {memory / machine.devices_per_node};
  if (knows_links) machine.within = machine.between = {profile.p2p->link, profile.reduce->link};
  return machine;
}

}  // namespace chimera
