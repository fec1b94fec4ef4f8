// GPT-2 (Radford et al., "Language models are unsupervised multitask learners", 2019): pre-norm
// blocks of causal attention and an MLP, learned positions. The head is a matrix of its own, as in
// the Chimera paper, or the token embedding (tied).
#pragma once

#include <memory>

#include "chimera/model/layer.h"

namespace chimera {

// Layer `layer` (global index) of the model, on the parameters of `store`.
[[nodiscard]] std::unique_ptr<Layer> make_gpt2_layer(const ModelSpec& spec, int layer,
                                                     const ParameterStore& store);

}  // namespace chimera
