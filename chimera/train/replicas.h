// Whether replicas are what they should be: bitwise equal after every step, since they began equal
// and step with the same gradients. A difference is a fault of memory, of the network or of ours.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "chimera/transport/transport.h"

namespace chimera {

// Stands for the weights that a set of stages uses.
struct ReplicaDigest {
  std::vector<int> stages;  // ascending
  std::int64_t digest = 0;
};

// 64 bits of a tensor's bytes. Finds any single fault; chance misses others once in 2^64.
[[nodiscard]] std::int64_t digest_of(const at::Tensor& tensor);

// All ranks call it with what they hold after `steps` steps; rank 0 compares. Throws Error
// (kCompute) there, which names the stages, the ranks that differ, and the step.
void compare_replicas(Transport& transport, const std::vector<ReplicaDigest>& own,
                      std::int64_t steps);

}  // namespace chimera
