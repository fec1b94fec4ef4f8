// What a mode reads, it does not write over.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

namespace chimera {

// Whether the path leads to one of the files, by whatever name; not where either is empty or not
// there.
[[nodiscard]] inline bool is_one_of(const std::string& path,
                                    const std::vector<std::string>& files) {
  return std::any_of(files.begin(), files.end(), [&](const std::string& file) {
    std::error_code error;
    return std::filesystem::equivalent(path, file, error);
  });
}

}  // namespace chimera
