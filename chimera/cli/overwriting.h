// What a mode reads, it does not write over.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "chimera/base/error.h"
#include "chimera/base/text.h"

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

// Throws Error (kUsage) where the option's path is one of the files.
inline void refuse_overwriting(std::string_view option, const std::string& path,
                               const std::vector<std::string>& files) {
  if (!is_one_of(path, files)) return;
  throw Error(ErrorCode::kUsage,
              cat(option, " is '", path, "', which the run reads; name another file"));
}

}  // namespace chimera
