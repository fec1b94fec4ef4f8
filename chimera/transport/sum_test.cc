#include "chimera/transport/sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace chimera {
namespace {

template <class T>
std::vector<std::byte*> pointers(std::vector<std::vector<T>>& buffers) {
  std::vector<std::byte*> data;
  for (auto& buffer : buffers) data.push_back(reinterpret_cast<std::byte*>(buffer.data()));
  return data;
}

// The sum of single elements given by their bits.
template <class T>
T sum_of(DType dtype, const std::vector<T>& values) {
  std::vector<std::vector<T>> buffers;
  for (const T value : values) buffers.push_back({value});
  sum_elements(dtype, pointers(buffers), 0, 1);
  for (const auto& buffer : buffers) EXPECT_EQ(buffer, buffers.front());
  return buffers.front().front();
}

std::uint16_t bf16(float exact) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(exact) >> 16);
}

TEST(Sum, TouchesOnlyTheElementsAskedFor) {
  constexpr std::size_t kElements = 5000;
  for (const auto& [begin, end] : std::vector<std::pair<std::size_t, std::size_t>>{
           {0, kElements}, {0, 0}, {1, 1024}, {7, 1031}, {1000, 3049}, {4999, 5000}}) {
    std::vector<std::vector<float>> buffers(3, std::vector<float>(kElements));
    for (std::size_t i = 0; i < kElements; ++i) {
      for (std::size_t b = 0; b < 3; ++b) buffers[b][i] = static_cast<float>(i * (b + 1));
    }
    sum_elements(DType::kFloat32, pointers(buffers), begin, end);
    for (std::size_t i = 0; i < kElements; ++i) {
      const bool summed = begin <= i && i < end;
      for (std::size_t b = 0; b < 3; ++b) {
        ASSERT_EQ(buffers[b][i], static_cast<float>(i * (summed ? 6 : b + 1))) << i;
      }
    }
  }
}

// As if into all of them, though only one of them, or another buffer, takes the sum.
TEST(Sum, WritesToOneBufferAlone) {
  constexpr std::size_t kElements = 3000;
  for (const std::size_t into : {0U, 1U, 2U, 3U}) {
    std::vector<std::vector<float>> buffers(4, std::vector<float>(kElements));
    const std::vector<float> values = {1e8F, 1.0F, -1e8F, 7.0F};
    for (std::size_t b = 0; b < 4; ++b) std::ranges::fill(buffers[b], values[b]);
    const std::vector<std::byte*> all = pointers(buffers);
    const std::vector<const std::byte*> first_three(all.begin(), all.begin() + 3);
    sum_into(DType::kFloat32, first_three, all[into], kElements - 1);
    for (std::size_t b = 0; b < 4; ++b) {
      std::vector<float> expected(kElements, values[b]);
      if (b == into) std::fill(expected.begin(), expected.end() - 1, 0.0F);
      EXPECT_EQ(buffers[b], expected) << b;
    }
  }
}

TEST(Sum, AddsInTheOrderOfTheBuffers) {
  EXPECT_EQ(sum_of<float>(DType::kFloat32, {1e8F, -1e8F, 1.0F}), 1.0F);
  EXPECT_EQ(sum_of<float>(DType::kFloat32, {1e8F, 1.0F, -1e8F}), 0.0F);
  EXPECT_EQ(sum_of<double>(DType::kFloat64, {1e17, -1e17, 1.0}), 1.0);
  EXPECT_EQ(sum_of<double>(DType::kFloat64, {1e17, 1.0, -1e17}), 0.0);
}

TEST(Sum, WrapsIntegersAround) {
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  EXPECT_EQ(sum_of<std::int32_t>(DType::kInt32, {-5, 3, -7}), -9);
  EXPECT_EQ(sum_of<std::int32_t>(DType::kInt32, {kMost, 1}), -kMost - 1);
  EXPECT_EQ(sum_of<std::int64_t>(DType::kInt64, {std::int64_t{1} << 40, -1}),
            (std::int64_t{1} << 40) - 1);
}

// 1 + 2^-9 + 2^-9: rounding after each addition would lose both small parts (bf16 has 8 bits).
TEST(Sum, RoundsBFloat16OnceAndToEven) {
  const float step = 0x1p-7F;  // between neighbours from 1 to 2
  EXPECT_EQ(sum_of<std::uint16_t>(DType::kBFloat16, {bf16(1), bf16(step / 4), bf16(step / 2)}),
            bf16(1 + step));
  EXPECT_EQ(sum_of<std::uint16_t>(DType::kBFloat16, {bf16(1), bf16(step / 2)}), bf16(1));
  EXPECT_EQ(sum_of<std::uint16_t>(DType::kBFloat16, {bf16(1 + step), bf16(step / 2)}),
            bf16(1 + 2 * step));
  EXPECT_EQ(sum_of<std::uint16_t>(DType::kBFloat16, {bf16(-1 - step), bf16(-step / 2)}),
            bf16(-1 - 2 * step));
}

TEST(Sum, KeepsInfinityAndNanOfBFloat16) {
  const std::uint16_t infinity = bf16(std::numeric_limits<float>::infinity());
  const std::uint16_t largest = 0x7F7F;
  EXPECT_EQ(sum_of<std::uint16_t>(DType::kBFloat16, {infinity, bf16(1)}), infinity);
  EXPECT_EQ(sum_of<std::uint16_t>(DType::kBFloat16, {largest, largest}), infinity);
  for (const std::uint16_t nan :
       std::initializer_list<std::uint16_t>{0x7FC0, 0x7FFF, 0xFFFF, 0x7F81}) {
    const std::uint16_t sum = sum_of<std::uint16_t>(DType::kBFloat16, {nan, bf16(1)});
    EXPECT_TRUE(std::isnan(std::bit_cast<float>(std::uint32_t{sum} << 16))) << nan;
  }
}

TEST(Sum, IsForNumbersOnly) {
  EXPECT_TRUE(can_sum(DType::kFloat64));
  EXPECT_TRUE(can_sum(DType::kInt32));
  EXPECT_FALSE(can_sum(DType::kUInt8));
  EXPECT_FALSE(can_sum(DType::kBool));
}

}  // namespace
}  // namespace chimera
