// A comparison (comparison.h) in words: for a terminal, for Markdown, and for programs.
#pragma once

#include <string>
#include <vector>

#include "chimera/cli/comparison.h"

namespace chimera {

// Lines of at most `columns` characters where the numbers allow it; reasons are wrapped.
[[nodiscard]] std::string table_of(const Work& work, const std::vector<Contender>& contenders,
                                   int columns);
[[nodiscard]] std::string markdown_of(const std::vector<Contender>& contenders);
// docs/formats.md has the columns of the one and the keys of the other.
[[nodiscard]] std::string csv_of(const std::vector<Contender>& contenders);
[[nodiscard]] std::string json_of(const Work& work, const std::vector<Contender>& contenders);

}  // namespace chimera
