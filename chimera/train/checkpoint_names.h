// What things are called in a checkpoint (docs/formats.md).
#pragma once

#include <cstdio>
#include <string>

namespace chimera {

inline constexpr const char* kCheckpointConfig = "config.toml";

// The file that a rank writes.
[[nodiscard]] inline std::string part_name(int rank) {
  char text[32];
  std::snprintf(text, sizeof text, "part-%04d.safetensors", rank);
  return text;
}

// Of a parameter: its value has its own name.
[[nodiscard]] inline std::string first_moment(const std::string& parameter) {
  return "optimizer.first." + parameter;
}
[[nodiscard]] inline std::string second_moment(const std::string& parameter) {
  return "optimizer.second." + parameter;
}

}  // namespace chimera
