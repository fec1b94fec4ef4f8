// AdamW (Loshchilov and Hutter, 2019) over the parameters of one worker, by libtorch's fused
// kernel.
//
// Weight decay applies to matrices, not to biases and norms. The update of an element depends on
// that element alone, so replicas that start equal and see equal gradients stay bitwise equal.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "chimera/model/store.h"

namespace chimera {

class AdamW {
 public:
  static constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8;

  // Steps all parameters that `store` has now. The store outlives the optimizer.
  AdamW(ParameterStore& store, double weight_decay);

  // One update with the store's gradients.
  void step(double learning_rate);

 private:
  struct Group {
    double weight_decay = 0;
    std::vector<at::Tensor> values, gradients, first, second, none, steps;
  };

  ParameterStore& store_;
  Group decayed_, plain_;
};

}  // namespace chimera
