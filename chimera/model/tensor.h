// Between tensors and what the torch-free side knows: number types, messages, buffers.
#pragma once

#include <ATen/core/Tensor.h>

#include "chimera/base/dtype.h"
#include "chimera/transport/message.h"

namespace chimera {

[[nodiscard]] at::ScalarType to_torch(DType dtype);
// CHECKs that we have a name for it.
[[nodiscard]] DType from_torch(at::ScalarType type);

// A message that owns the tensor's bytes, and no more than them. Copies only a tensor that is not
// dense, or is part of a larger one.
[[nodiscard]] Message to_message(const at::Tensor& tensor);

// A tensor over the message's bytes, which it keeps alive. Copies nothing.
[[nodiscard]] at::Tensor to_tensor(Message message, at::Device device);

// A view of a dense tensor's bytes.
[[nodiscard]] Buffer to_buffer(const at::Tensor& tensor);

}  // namespace chimera
