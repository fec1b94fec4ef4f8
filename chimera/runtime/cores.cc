#include "chimera/runtime/cores.h"

#include <algorithm>

#include "chimera/base/check.h"
#include "chimera/base/text.h"

namespace chimera {
namespace {

// "core 3 of 8", "cores 0,2-3 of 8".
std::string name_cores(const std::vector<int>& chosen, std::size_t all) {
  if (chosen.empty()) return cat("none of ", all, " cores");
  std::vector<std::string> runs;
  for (std::size_t begin = 0, end = 0; begin < chosen.size(); begin = end) {
    for (end = begin + 1; end < chosen.size() && chosen[end] == chosen[end - 1] + 1;) ++end;
    const bool is_one = end == begin + 1;
    runs.push_back(is_one ? cat(chosen[begin]) : cat(chosen[begin], "-", chosen[end - 1]));
  }
  return cat(chosen.size() == 1 ? "core " : "cores ", join(runs, ","), " of ", all);
}

// Which cores have a unit among `units`, and whether all units of all cores are among them.
struct Touched {
  std::vector<int> cores;
  bool all = true;
};

Touched touched_by(const std::set<int>& units, const std::vector<Core>& cores) {
  Touched touched;
  for (int core = 0; core < std::ssize(cores); ++core) {
    const Core& its = cores[static_cast<std::size_t>(core)];
    const auto is_there = [&](int unit) { return units.contains(unit); };
    if (std::any_of(its.begin(), its.end(), is_there)) touched.cores.push_back(core);
    touched.all = touched.all && std::all_of(its.begin(), its.end(), is_there);
  }
  return touched;
}

}  // namespace

CoreChoice choose_cores(const std::vector<Core>& cores, const std::set<int>& bound, int local_rank,
                        int local_size) {
  CHECK(local_rank >= 0 && local_rank < local_size);
  const Touched touched = touched_by(bound, cores);
  if (!touched.all) {
    return {{}, cat("bound at its start, to ", name_cores(touched.cores, cores.size()))};
  }
  const int count = static_cast<int>(cores.size());
  if (count < local_size) {
    return {{},
            cat("not bound: ", local_size, " ranks on ", count, count == 1 ? " core" : " cores")};
  }
  CoreChoice choice;
  std::vector<int> share;
  for (int core = local_rank * count / local_size; core < (local_rank + 1) * count / local_size;
       ++core) {
    const Core& units = cores[static_cast<std::size_t>(core)];
    share.push_back(core);
    choice.units.insert(choice.units.end(), units.begin(), units.end());
  }
  choice.text = name_cores(share, cores.size());
  return choice;
}

}  // namespace chimera
