// What a model is: its kind, sizes and number format. A value; knows no tensors.
//
// Layers are numbered globally: 0 is the embedding, 1..layers are the transformer blocks, layers +
// 1 is the final norm with the head. A split of the model into stages counts blocks; the embedding
// goes with the first stage, the final norm and the head with the last.
#pragma once

#include <cstdint>
#include <string>

#include "chimera/base/dtype.h"

namespace chimera {

struct ModelSpec {
  std::string kind = "gpt2";
  int layers = 0;  // transformer blocks
  int hidden = 0;
  int heads = 0;
  int sequence = 0;  // tokens of a training sequence
  int vocabulary = 0;
  int positions = 0;  // rows of the position table; 0: as many as `sequence`
  double dropout = 0;
  bool tied = false;  // the head's weight is the token embedding's
  // Of the computation and of messages between stages. Parameters, their gradients and sums of them
  // have this type too, except that for bf16 they are fp32 (see store.h).
  DType dtype = DType::kFloat32;

  [[nodiscard]] int position_count() const { return positions == 0 ? sequence : positions; }
  [[nodiscard]] int head_layer() const { return layers + 1; }   // global index of the last layer
  [[nodiscard]] int layer_count() const { return layers + 2; }  // with embedding and head
  [[nodiscard]] DType parameter_dtype() const {
    return dtype == DType::kBFloat16 ? DType::kFloat32 : dtype;
  }
};

// Throws Error (kUsage) for a model that cannot be built.
void validate(const ModelSpec& spec);

}  // namespace chimera
