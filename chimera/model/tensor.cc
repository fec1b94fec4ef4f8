#include "chimera/model/tensor.h"

#include <torch/torch.h>

#include <array>
#include <utility>

#include "chimera/base/check.h"

namespace chimera {
namespace {

// In the order of DType.
constexpr std::array<at::ScalarType, kDTypes.size()> kTorchTypes = {
    at::kDouble, at::kFloat, at::kBFloat16, at::kLong, at::kInt, at::kByte, at::kBool};

}  // namespace

at::ScalarType to_torch(DType dtype) { return kTorchTypes[static_cast<std::size_t>(dtype)]; }

DType from_torch(at::ScalarType type) {
  for (std::size_t i = 0; i < kTorchTypes.size(); ++i) {
    if (kTorchTypes[i] == type) return static_cast<DType>(i);
  }
  CHECK(!"a number type without a name");
  return DType::kUInt8;
}

Message to_message(const at::Tensor& tensor) {
  // Detached: the message must not hold the graph that computed it.
  auto owner = std::make_shared<at::Tensor>(tensor.detach().contiguous());
  if (owner->storage().nbytes() != owner->nbytes()) *owner = owner->clone();
  Message message;
  message.dtype = from_torch(owner->scalar_type());
  message.shape = owner->sizes().vec();
  message.data = static_cast<std::byte*>(owner->data_ptr());
  message.owner = std::move(owner);
  return message;
}

at::Tensor to_tensor(Message message, at::Device device) {
  const auto options = at::TensorOptions().dtype(to_torch(message.dtype)).device(device);
  if (message.elements() == 0) return at::empty(message.shape, options);
  return at::from_blob(
      message.data, message.shape, [owner = std::move(message.owner)](void*) {}, options);
}

Buffer to_buffer(const at::Tensor& tensor) {
  CHECK(tensor.is_contiguous());
  return {.dtype = from_torch(tensor.scalar_type()),
          .data = static_cast<std::byte*>(tensor.data_ptr()),
          .elements = static_cast<std::size_t>(tensor.numel())};
}

}  // namespace chimera
