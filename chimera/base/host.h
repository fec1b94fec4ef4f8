// The name of this machine, for messages.
#pragma once

#include <unistd.h>

#include <array>
#include <string>

namespace chimera {

[[nodiscard]] inline std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace chimera
