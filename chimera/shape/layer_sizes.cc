#include "chimera/shape/layer_sizes.h"

#include <algorithm>

#include "chimera/shape/gpt2_sizes.h"
#include "chimera/shape/ledger.h"
#include "chimera/shape/parameters.h"

namespace chimera {
namespace {

// A layer's forward and backward, the loss behind the head.
class LayerRun {
 public:
  LayerRun(const ModelSpec& spec, int layer, std::int64_t sequences, int threads)
      : sizes_(spec, sequences, threads), layer_(layer), is_head_(layer == spec.head_layer()) {}

  [[nodiscard]] std::int64_t output() const { return is_head_ ? 0 : sizes_.hidden(); }

  [[nodiscard]] Ledger forward(bool graph) const {
    Ledger ledger;
    sizes_.forward(layer_, graph, ledger);
    if (!is_head_) return ledger;
    if (!graph) ledger.give(sizes_.hidden());  // its input, before the loss
    sizes_.loss_forward(graph, ledger);
    return ledger;
  }

  [[nodiscard]] Ledger backward(bool at_end) const {
    Ledger ledger;
    if (is_head_) sizes_.loss_backward(ledger);
    sizes_.backward(layer_, {.output_gradient_stays = at_end}, ledger);
    return ledger;
  }

 private:
  Gpt2Sizes sizes_;
  int layer_;
  bool is_head_;
};

}  // namespace

LayerSizes layer_sizes(const ModelSpec& spec, int layer, std::int64_t sequences, int threads) {
  LayerSizes sizes;
  for (const ParameterSpec& parameter : layer_parameters(spec, layer)) {
    sizes.parameters += parameter.elements();
    sizes.weights += parameter_sizes(spec, parameter);
    if (parameter.layer == layer) sizes.largest = std::max(sizes.largest, parameter.elements());
  }
  const LayerRun run(spec, layer, sequences, threads);
  const Ledger whole = run.forward(true);
  sizes.output = run.output();
  sizes.stash = whole.held() - sizes.output;
  sizes.forward_work = whole.peak() - whole.held();
  sizes.kept_forward_work = run.forward(false).peak() - sizes.output;
  sizes.backward_work = run.backward(false).peak();
  sizes.end_backward_work = run.backward(true).peak();
  return sizes;
}

}  // namespace chimera
