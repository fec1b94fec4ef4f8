// AdamW (Loshchilov and Hutter, 2019) over the parameters of one worker, by libtorch's fused
// kernel.
//
// Weight decay applies to matrices, not to biases and norms. The update of an element depends on
// that element alone, so replicas that start equal and see equal gradients stay bitwise equal, and
// stages may be stepped together or each by itself.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "chimera/model/store.h"

namespace chimera {

class AdamW {
 public:
  struct Moments {
    const Parameter* parameter;
    at::Tensor first, second, steps;
  };

  static constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8;

  // Steps all parameters that `store` has now. The store outlives the optimizer.
  AdamW(ParameterStore& store, double weight_decay);

  // One update with the store's gradients, of all parameters or of those that `stage` alone uses.
  void step(double learning_rate);
  void step(double learning_rate, int stage);

  // Of all parameters, by name.
  [[nodiscard]] const std::vector<Moments>& moments() const { return moments_; }

  // Goes on after so many steps, whose values and moments were written to where they lie here.
  void resume(std::int64_t steps);

 private:
  void update(double learning_rate, const std::vector<const Moments*>& chosen);

  ParameterStore& store_;
  double weight_decay_;
  std::vector<Moments> moments_;
};

}  // namespace chimera
