// Binding by hwloc. Only functions that hwloc 1.11 has as 2.x does.
#include <cerrno>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "chimera/base/text.h"
#include "chimera/runtime/cores.h"
#include "chimera/runtime/hwloc/topology.h"

namespace chimera {
namespace {

std::string not_bound(const std::string& what, int error) {
  return cat("not bound: ", what, " (", std::strerror(error), ")");
}

// What follows returns 0 or the system's error.

// Where the threads of this process may run, taken together.
int read_binding(hwloc_topology_t topology, std::set<int>& units) {
  const UnitSet bound(hwloc_bitmap_alloc());
  if (!bound) return ENOMEM;
  if (hwloc_get_cpubind(topology, bound.get(), HWLOC_CPUBIND_PROCESS) != 0) return errno;
  // It may name units without end; those that are here count.
  hwloc_bitmap_and(bound.get(), bound.get(), hwloc_get_root_obj(topology)->cpuset);
  const std::vector<int> found = units_in(bound.get());
  units.insert(found.begin(), found.end());
  return 0;
}

int bind_process(hwloc_topology_t topology, const std::vector<int>& units) {
  const UnitSet set(hwloc_bitmap_alloc());
  if (!set) return ENOMEM;
  for (const int unit : units) hwloc_bitmap_set(set.get(), static_cast<unsigned>(unit));
  return hwloc_set_cpubind(topology, set.get(), HWLOC_CPUBIND_PROCESS) == 0 ? 0 : errno;
}

}  // namespace

Topology make_topology() {
  hwloc_topology_t topology = nullptr;
  return Topology(hwloc_topology_init(&topology) == 0 ? topology : nullptr);
}

std::vector<int> units_in(hwloc_const_bitmap_t set) {
  std::vector<int> units;
  for (int unit = hwloc_bitmap_first(set); unit >= 0; unit = hwloc_bitmap_next(set, unit)) {
    units.push_back(unit);
  }
  return units;
}

std::vector<Core> cores_of(hwloc_topology_t topology) {
  // By default hwloc leaves out of its view what a container forbids.
  std::vector<Core> cores;
  for (const hwloc_obj_type_t type : {HWLOC_OBJ_CORE, HWLOC_OBJ_PU}) {
    for (int index = 0; index < hwloc_get_nbobjs_by_type(topology, type); ++index) {
      const auto place = static_cast<unsigned>(index);
      cores.push_back(units_in(hwloc_get_obj_by_type(topology, type, place)->cpuset));
    }
    if (!cores.empty()) break;
  }
  return cores;
}

std::string bind_to_share(int local_rank, int local_size) {
  const Topology topology = make_topology();
  if (!topology || hwloc_topology_load(topology.get()) != 0) {
    return not_bound("hwloc cannot look at this machine", errno);
  }
  if (hwloc_topology_is_thissystem(topology.get()) == 0) {
    return "not bound: hwloc was told to look at another machine";
  }
  std::set<int> bound;
  if (const int error = read_binding(topology.get(), bound)) {
    return not_bound("the binding at the start cannot be read", error);
  }
  const CoreChoice choice = choose_cores(cores_of(topology.get()), bound, local_rank, local_size);
  if (choice.units.empty()) return choice.text;
  if (const int error = bind_process(topology.get(), choice.units)) {
    return not_bound(cat("the system refuses ", choice.text), error);
  }
  return choice.text;
}

}  // namespace chimera
