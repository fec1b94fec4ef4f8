// The bytes of one layer by itself, so that those of any stage follow by adding up: what a profile
// says of layers (plan/profile.h, plan/layout.h). Computed from the model's sizes, as sizes.h does
// for whole stages; no tensor is known.
#pragma once

#include <cstdint>

#include "chimera/shape/sizes.h"
#include "chimera/shape/spec.h"

namespace chimera {

struct LayerSizes {
  std::int64_t parameters = 0;  // elements; a tied head's include the token table
  WeightSizes weights;
  std::int64_t largest = 0;  // elements of the largest parameter, one that is shared left out

  // Of one micro-batch. Its tokens and targets are not counted.
  std::int64_t output = 0;             // hidden states; none of the head, which ends in the loss
  std::int64_t stash = 0;              // kept for the backward, neither input nor output
  std::int64_t forward_work = 0;       // most in a forward, beyond stash and output
  std::int64_t kept_forward_work = 0;  // the same of one that keeps its output alone
  // Most in a backward, beyond what is held when it begins. `end`: where the gradient of its output
  // is a message, which stays.
  std::int64_t backward_work = 0;
  std::int64_t end_backward_work = 0;
};

// `layer` is a global index; the head's sizes include the loss.
[[nodiscard]] LayerSizes layer_sizes(const ModelSpec& spec, int layer, std::int64_t sequences,
                                     int threads);

}  // namespace chimera
