// Layer: the smallest piece of a model that moves between stages. The seam between what runs layers
// (torch_stage.h) and a kind of model (gpt2.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "chimera/model/dropout.h"
#include "chimera/model/store.h"
#include "chimera/shape/spec.h"
#include "chimera/shape/split.h"

namespace chimera {

class Layer {
 public:
  virtual ~Layer() = default;

  // The first layer takes tokens [sequences, tokens] of int64, others the hidden states
  // [sequences, tokens, hidden]; the last one returns logits [sequences, tokens, vocabulary].
  // Records a graph where grad mode is on. Any number of sequences, none among them.
  [[nodiscard]] virtual at::Tensor forward(const at::Tensor& input, const Pass& pass) const = 0;
};

// Consecutive layers of a model as one.
class LayerChain final : public Layer {
 public:
  // Uses the parameters of `store`, where they must be.
  LayerChain(const ModelSpec& spec, LayerRange range, const ParameterStore& store);

  [[nodiscard]] at::Tensor forward(const at::Tensor& input, const Pass& pass) const override;

 private:
  std::vector<std::unique_ptr<Layer>> layers_;
};

// The whole model on the parameters of `store`, which are created where missing.
[[nodiscard]] LayerChain whole_model(const ModelSpec& spec, ParameterStore& store);

}  // namespace chimera
