// Element types of buffers and messages, and their names and sizes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace chimera {

enum class DType : std::uint8_t { kFloat64, kFloat32, kBFloat16, kInt64, kInt32, kUInt8, kBool };

struct DTypeInfo {
  std::string_view name;         // in configurations and messages
  std::string_view safetensors;  // in weight files
  std::size_t bytes;
};

inline constexpr std::array<DTypeInfo, 7> kDTypes = {{{"fp64", "F64", 8},
                                                      {"fp32", "F32", 4},
                                                      {"bf16", "BF16", 2},
                                                      {"int64", "I64", 8},
                                                      {"int32", "I32", 4},
                                                      {"uint8", "U8", 1},
                                                      {"bool", "BOOL", 1}}};

[[nodiscard]] constexpr const DTypeInfo& info(DType dtype) {
  return kDTypes[static_cast<std::size_t>(dtype)];
}

}  // namespace chimera
