// A layout: one way to lay a model over a machine's devices; and what the simulator and the memory
// model say of it, from a profile.
#pragma once

#include <vector>

#include "chimera/plan/machine.h"
#include "chimera/plan/profile.h"
#include "chimera/schedule/schedule.h"
#include "chimera/simulate/costs.h"
#include "chimera/simulate/memory.h"

namespace chimera {

struct Layout {
  Placement placement;
  int width = 1;                // W
  int sequences = 1;            // B, of one of the program's micro-batches
  std::vector<int> split;       // blocks of each stage
  std::vector<int> recomputed;  // of each stage, its first blocks whose activations are not kept
};

// Time of an all-reduce over `ranks`: Rabenseifner's 2 log2(r) alpha + 2 (r - 1) / r beta L.
[[nodiscard]] double rabenseifner_s(const Link& hop, int ranks, double bytes);
// Along a ring, as GLOO does it: 2 (r - 1) (alpha + beta L / r).
[[nodiscard]] double ring_s(const Link& hop, int ranks, double bytes);
// By exchanges of the whole gradient with one rank after another: log2(r) (alpha + beta L).
[[nodiscard]] double recursive_doubling_s(const Link& hop, int ranks, double bytes);

// The gradient that each stage's all-reduce adds up.
[[nodiscard]] std::vector<double> gradient_bytes(const Profile& profile, const Layout& layout);

// `layout` fits the profile: as many blocks in the split as the profile has. Messages between
// workers that lie on one node in every group go over its links; an all-reduce whose stage group
// lies on one node does, too. Throws Error (kUsage) where the machine has too few devices, as does
// layout_limits.
[[nodiscard]] Costs layout_costs(const Profile& profile, const Machine& machine,
                                 const Layout& layout);
[[nodiscard]] MemoryModel layout_memory(const Profile& profile, const Layout& layout);

// What each worker of a group may hold: the least of its devices in all groups.
[[nodiscard]] std::vector<double> layout_limits(const Machine& machine, const Layout& layout);

}  // namespace chimera
