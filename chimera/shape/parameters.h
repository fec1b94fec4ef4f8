// The parameters of a model as a table: names, shapes, how they begin, which stages use them.
// Knows no tensors; counts, initial values, weight files and gradient buffers all come from it.
//
// Names and shapes are those of Hugging Face's GPT-2 (`h.3.attn.c_attn.weight`, [in, out]), so that
// weights can be exchanged as they are. A tied head has no `lm_head.weight`: it uses `wte.weight`.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "chimera/shape/spec.h"

namespace chimera {

// Where a parameter begins within a buffer of several, in bytes: at multiples of this (store.h).
inline constexpr std::int64_t kParameterAlignment = 64;

enum class Initial : std::uint8_t { kNormal, kZeros, kOnes };

struct ParameterSpec {
  std::string name;
  std::vector<std::int64_t> shape;
  // Identity for initial values: the same in every split. For a shared parameter, that of its
  // owner.
  int layer = 0;
  int index = 0;  // within the layer
  Initial initial = Initial::kZeros;
  double deviation = 0;  // of kNormal
  // All stages that use it, ascending; more than one for a tied head. Set by stage_parameters.
  std::vector<int> stages = {};

  [[nodiscard]] std::int64_t elements() const;
};

// What a layer (global index) uses, in a fixed order.
[[nodiscard]] std::vector<ParameterSpec> layer_parameters(const ModelSpec& spec, int layer);

// What a stage uses, in order of layers, each once.
[[nodiscard]] std::vector<ParameterSpec> stage_parameters(const ModelSpec& spec,
                                                          std::span<const int> split, int stage);

// All parameters of the model, each once.
[[nodiscard]] std::vector<ParameterSpec> model_parameters(const ModelSpec& spec);

// Elements of all parameters, each once.
[[nodiscard]] std::int64_t parameter_count(const ModelSpec& spec);

}  // namespace chimera
