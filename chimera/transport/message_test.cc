#include "chimera/transport/message.h"

#include <gtest/gtest.h>

namespace chimera {
namespace {

TEST(Message, HasAlignedBytesForItsShape) {
  const Message message = make_message(DType::kBFloat16, {2, 3, 5});
  EXPECT_EQ(message.elements(), 30U);
  EXPECT_EQ(message.bytes(), 60U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(message.data) % 64, 0U);
  message.data[59] = std::byte{1};  // the sanitizers say whether it is ours
  EXPECT_TRUE(message);
}

TEST(Message, ExistsEvenWhenItIsEmptyOrASingleNumber) {
  EXPECT_FALSE(Message());
  EXPECT_TRUE(make_message(DType::kFloat32, {4, 0}));
  EXPECT_EQ(make_message(DType::kFloat32, {4, 0}).bytes(), 0U);
  EXPECT_EQ(make_message(DType::kFloat64, {}).bytes(), 8U);
}

TEST(Message, IsFreedWithItsLastCopy) {
  Message message;
  message.owner = std::make_shared<int>(7);
  const std::weak_ptr<void> watch = message.owner;
  Message copy = message;
  message = Message();
  EXPECT_FALSE(watch.expired());
  copy = Message();
  EXPECT_TRUE(watch.expired());
}

}  // namespace
}  // namespace chimera
