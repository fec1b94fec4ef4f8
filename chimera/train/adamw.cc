#include "chimera/train/adamw.h"

#include <torch/torch.h>

namespace chimera {

AdamW::AdamW(ParameterStore& store, double weight_decay)
    : store_(store), weight_decay_(weight_decay) {
  for (const auto& [name, parameter] : store.parameters()) {
    const auto& gradient = parameter.gradient;
    moments_.push_back({&parameter, at::zeros_like(gradient), at::zeros_like(gradient),
                        at::zeros({}, gradient.options().dtype(at::kFloat))});
  }
}

void AdamW::step(double learning_rate) {
  std::vector<const Moments*> all;
  for (const Moments& moments : moments_) all.push_back(&moments);
  update(learning_rate, all);
  store_.values_changed();
}

void AdamW::step(double learning_rate, int stage) {
  std::vector<const Moments*> own;
  for (const Moments& moments : moments_) {
    if (moments.parameter->spec.stages == std::vector<int>{stage}) own.push_back(&moments);
  }
  update(learning_rate, own);
  store_.stepped(stage);
}

void AdamW::resume(std::int64_t steps) {
  const at::NoGradGuard no_grad;
  for (const Moments& moments : moments_) {
    at::Tensor count = moments.steps;
    count.fill_(steps);
  }
  store_.values_changed();
}

void AdamW::update(double learning_rate, const std::vector<const Moments*>& chosen) {
  const at::NoGradGuard no_grad;
  for (const bool is_matrix : {true, false}) {
    std::vector<at::Tensor> values, gradients, first, second, none, steps;
    for (const Moments* moments : chosen) {
      const Parameter& parameter = *moments->parameter;
      if ((parameter.value.dim() >= 2) != is_matrix) continue;
      values.push_back(parameter.value.detach());
      gradients.push_back(parameter.gradient);
      first.push_back(moments->first);
      second.push_back(moments->second);
      steps.push_back(moments->steps);
    }
    if (values.empty()) continue;
    at::_foreach_add_(steps, 1);
    at::_fused_adamw_(values, gradients, first, second, none, steps, learning_rate, kBeta1, kBeta2,
                      is_matrix ? weight_decay_ : 0, kEpsilon, /*amsgrad=*/false,
                      /*maximize=*/false);
  }
}

}  // namespace chimera
