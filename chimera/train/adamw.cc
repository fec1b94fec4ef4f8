#include "chimera/train/adamw.h"

#include <torch/torch.h>

namespace chimera {

AdamW::AdamW(ParameterStore& store, double weight_decay) : store_(store) {
  decayed_.weight_decay = weight_decay;
  for (const auto& [name, parameter] : store.parameters()) {
    Group& group = parameter.value.dim() >= 2 ? decayed_ : plain_;
    group.values.push_back(parameter.value.detach());
    group.gradients.push_back(parameter.gradient);
    group.first.push_back(at::zeros_like(parameter.gradient));
    group.second.push_back(at::zeros_like(parameter.gradient));
    group.steps.push_back(at::zeros({}, parameter.gradient.options().dtype(at::kFloat)));
  }
}

void AdamW::step(double learning_rate) {
  const at::NoGradGuard no_grad;
  for (Group* group : {&decayed_, &plain_}) {
    if (group->values.empty()) continue;
    at::_foreach_add_(group->steps, 1);
    at::_fused_adamw_(group->values, group->gradients, group->first, group->second, group->none,
                      group->steps, learning_rate, kBeta1, kBeta2, group->weight_decay, kEpsilon,
                      /*amsgrad=*/false, /*maximize=*/false);
  }
  store_.values_changed();
}

}  // namespace chimera
