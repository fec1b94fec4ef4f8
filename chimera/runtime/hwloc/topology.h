// What hwloc knows of this machine, as the plain values of cores.h. Owns hwloc's view of it.
#pragma once

#include <hwloc.h>

#include <memory>
#include <set>
#include <type_traits>
#include <vector>

#include "chimera/runtime/cores.h"

namespace chimera {

struct HwlocDeleter {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
  void operator()(hwloc_bitmap_t set) const { hwloc_bitmap_free(set); }
};
using Topology = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, HwlocDeleter>;
using UnitSet = std::unique_ptr<std::remove_pointer_t<hwloc_bitmap_t>, HwlocDeleter>;

// Before hwloc_topology_load; null where there is no memory.
[[nodiscard]] Topology make_topology();

// The cores that this process may use, in hwloc's order. Where hwloc sees no cores, as in some
// virtual machines, each processing unit counts as one.
[[nodiscard]] std::vector<Core> cores_of(hwloc_topology_t topology);

[[nodiscard]] std::vector<int> units_in(hwloc_const_bitmap_t set);

}  // namespace chimera
