#include "chimera/model/layer.h"

#include <torch/torch.h>

#include "chimera/model/gpt2.h"
#include "chimera/shape/parameters.h"

namespace chimera {

LayerChain::LayerChain(const ModelSpec& spec, LayerRange range, const ParameterStore& store) {
  for (int layer = range.begin; layer < range.end; ++layer) {
    layers_.push_back(make_gpt2_layer(spec, layer, store));
  }
}

at::Tensor LayerChain::forward(const at::Tensor& input, const Pass& pass) const {
  at::Tensor hidden = input;
  for (const auto& layer : layers_) hidden = layer->forward(hidden, pass);
  return hidden;
}

LayerChain whole_model(const ModelSpec& spec, ParameterStore& store) {
  store.create(model_parameters(spec));
  return {spec, {0, spec.layer_count()}, store};
}

}  // namespace chimera
