// How a model is cut into stages: which layers go where, and what they cost. Knows no tensors.
//
// A split lists the transformer blocks of each stage, first stage first: `3,2,2,1`. Every stage has
// at least one; the embedding goes with the first, the final norm and the head with the last.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "chimera/shape/spec.h"

namespace chimera {

// Global layer indices [begin, end).
struct LayerRange {
  int begin = 0;
  int end = 0;
};

// Embedding and head included. `split` is a legal one.
[[nodiscard]] LayerRange layers_of_stage(std::span<const int> split, int stage);

// The global layer at which a stage is cut for recompute: layers before it are recomputed, those
// from it on are not. `recomputed_blocks` is from 0 (none: the stage's first layer) to all of the
// stage's blocks (its end, so that embedding, norm and head are recomputed too).
[[nodiscard]] int recompute_cut(std::span<const int> split, int stage, int recomputed_blocks);

struct LayerCost {
  std::int64_t parameters = 0;
  // Floating-point operations of one forward over one sequence. Backward costs twice as many.
  std::int64_t flops = 0;
};

// Of each global layer, embedding first. A tied head's parameters count where they are used.
[[nodiscard]] std::vector<LayerCost> layer_costs(const ModelSpec& spec);

// A split as text for a model of `layers` blocks. Throws Error (kUsage) for one that is not
// numbers, has another number of stages, an empty stage, or another sum.
[[nodiscard]] std::vector<int> parse_split(std::string_view text, int layers, int stages);

// The split whose most expensive stage is cheapest by FLOPs; among those, the one whose largest
// stage has the fewest parameters; among those, the most even one. Exact, in O(stages * layers^2).
// Throws Error (kUsage) for more stages than blocks.
[[nodiscard]] std::vector<int> balanced_split(const ModelSpec& spec, int stages);

}  // namespace chimera
