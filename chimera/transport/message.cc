#include "chimera/transport/message.h"

#include <new>
#include <utility>

#include "chimera/base/check.h"

namespace chimera {
namespace {

constexpr std::align_val_t kAlignment{64};

}  // namespace

Message make_message(DType dtype, std::vector<std::int64_t> shape) {
  for (const std::int64_t extent : shape) CHECK(extent >= 0);
  Message message;
  message.dtype = dtype;
  message.shape = std::move(shape);
  message.owner = std::shared_ptr<void>(::operator new(message.bytes(), kAlignment),
                                        [](void* data) { ::operator delete(data, kAlignment); });
  message.data = static_cast<std::byte*>(message.owner.get());
  return message;
}

}  // namespace chimera
