// Dropout whose masks come from a counter: a mask is a function of (seed, step, layer, site,
// sample) and nothing else. So it is the same however the model is cut into stages and the
// mini-batch into micro-batches, and when a forward is run again.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "chimera/model/random_use.h"

namespace chimera {

// One forward of one micro-batch.
struct Pass {
  bool training = false;  // false: no dropout; the other members are not looked at
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  std::span<const std::int64_t> samples = {};  // global id of each sequence
};

// `input` (first dimension: the sequences) with each element zeroed with probability
// `probability`, else scaled by 1 / (1 - probability).
[[nodiscard]] at::Tensor dropout(const at::Tensor& input, double probability, int layer,
                                 DropoutSite site, const Pass& pass);

}  // namespace chimera
