// What stands in for runtime/hwloc in a build without hwloc.
#include "chimera/runtime/cores.h"

namespace chimera {

std::string bind_to_share(int, int) { return "not bound: built without hwloc"; }

}  // namespace chimera
