// The bytes of a stage, predicted: weights and their like, and what its forwards and backwards hold
// for one micro-batch. Computed from the model's sizes; nothing is run, and no tensor is known.
//
// As the memory meter measures them (memory_meter.h): what libtorch is asked for, alignment left
// out. `spec`, `split` and what they are asked for are legal.
#pragma once

#include <cstdint>
#include <span>

#include "chimera/shape/parameters.h"
#include "chimera/shape/spec.h"

namespace chimera {

struct WeightSizes {
  std::int64_t parameters = 0;  // values; for bf16 fp32 ones, and the copy to compute with
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;  // AdamW's two moments and counters of steps

  WeightSizes& operator+=(const WeightSizes& other);
};

[[nodiscard]] WeightSizes parameter_sizes(const ModelSpec& spec, const ParameterSpec& parameter);

// Of a worker that holds these stages, each named once, in one store (store.h): parameters that
// several of them use are held once.
[[nodiscard]] WeightSizes weight_sizes(const ModelSpec& spec, std::span<const int> split,
                                       std::span<const int> stages);

struct StageSizes {
  // Of a worker that holds this stage alone.
  std::int64_t parameters = 0, gradients = 0, optimizer = 0;

  // What a forward keeps for its backward, the input message included: with its whole graph, and
  // with part of it to be recomputed.
  std::int64_t stash = 0;
  std::int64_t kept = 0;

  // Most bytes while an action runs, beyond what is held before or after it:
  std::int64_t forward_work = 0;       // beyond stash; the output message included
  std::int64_t kept_forward_work = 0;  // beyond kept, in a forward that is to be recomputed
  std::int64_t recompute_work = 0;     // beyond stash, which replaces kept
  std::int64_t backward_work = 0;      // beyond stash; both gradient messages included

  std::int64_t activation = 0;  // the message to the next stage, or the gradient to this one
};

struct MicroBatchSize {
  std::int64_t sequences = 1;
  // Blocks of the stage, from its first, whose activations are not kept. All of them: those of
  // embedding, norm, head and loss are not kept either. The first stage reads its tokens again.
  int recomputed_blocks = 0;
  int threads = 1;  // that libtorch uses within an operation
};

[[nodiscard]] StageSizes stage_sizes(const ModelSpec& spec, std::span<const int> split, int stage,
                                     const MicroBatchSize& micro);

}  // namespace chimera
