// Random schedules and random damage, drawn from RapidCheck's generators: to be called within a
// property, so that a counterexample shrinks to a small schedule.
#pragma once

#include "chimera/generate/generate.h"
#include "chimera/schedule/schedule.h"

namespace chimera {

// From 0 to count - 1; shrinks to 0.
[[nodiscard]] int pick(int count);

// Of any generator, with any of its options, some stages recomputed.
[[nodiscard]] Schedule generated_schedule();

// Any placement, pipes, mixture of B and I with W, recomputes, steps on the way with old versions;
// any order that keeps dependencies and the order of each channel.
[[nodiscard]] Schedule free_schedule();

// One action dropped, doubled, moved or changed.
void damage(Rows& rows, const Schedule& source);

}  // namespace chimera
