// The generator functions, one file each. Called through the table in generate.h, which has checked
// the spec: at least one stage and micro-batch, and pairs where the schedule has them.
#pragma once

#include "chimera/generate/generate.h"

namespace chimera {

[[nodiscard]] Schedule make_gpipe(const Spec& spec);
[[nodiscard]] Schedule make_one_f_one_b(const Spec& spec);
[[nodiscard]] Schedule make_gems(const Spec& spec);
[[nodiscard]] Schedule make_pipedream(const Spec& spec);
[[nodiscard]] Schedule make_pipedream_2bw(const Spec& spec);
[[nodiscard]] Schedule make_chimera(const Spec& spec);

// A compute action of one micro-batch.
[[nodiscard]] inline Action compute_action(Op op, int stage, int micro, int pipe = 0) {
  return {.op = op,
          .stage = static_cast<std::int16_t>(stage),
          .pipe = static_cast<std::int16_t>(pipe),
          .micro = micro};
}

}  // namespace chimera
