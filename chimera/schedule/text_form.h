// The text form of a schedule: golden files, the command line, exchange (docs/formats.md).
//
//   name: chimera
//   stages: 4
//   workers: 4
//   pipes: 2
//   micros: 4
//   placement: 0,1,2,3;3,2,1,0
//   0F0,0F1,3F2@1,3B2@1,3F3@1,3B3@1,0B0,0B1
//   ...
//
// print(parse(text)) == text for what print printed, and parse(print(schedule)) == schedule for
// every schedule whose name is one line without '#'.
#pragma once

#include <string>
#include <string_view>

#include "chimera/schedule/schedule.h"

namespace chimera {

[[nodiscard]] std::string print(const Schedule& schedule);

// Throws Error (kUsage) that names `source`, the line, the word and what was expected there.
// Checks the form only: ids in range, rows as many as workers. What the rows mean is verify's.
[[nodiscard]] Schedule parse(std::string_view text, std::string_view source);

}  // namespace chimera
