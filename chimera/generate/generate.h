// The schedules we can generate, by name. One file a schedule; this table lists them.
//
// A generator is a pure function of its Spec. What it cannot build it refuses with Error (kUsage)
// that names the nearest legal values; what it returns verifies (generate_test.cc, exhaustively).
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "chimera/schedule/schedule.h"

namespace chimera {

struct Spec {
  int stages = 0;            // D
  int micros = 0;            // N, of one group
  std::optional<int> pairs;  // f, for schedules of pipe pairs; 1 unless given
};

struct Generator {
  std::string_view name;
  std::string_view summary;  // one line for --help
  bool paired = false;       // takes Spec::pairs
  bool even_stages = false;  // exists for even D only
  Schedule (*make)(const Spec& spec) = nullptr;
};

[[nodiscard]] std::span<const Generator> generators();

// Checks the spec and builds the schedule. Throws Error for an unknown name (with the nearest), for
// numbers out of range, and for what the schedule cannot be (with the nearest that it can).
[[nodiscard]] Schedule generate(std::string_view name, const Spec& spec);

}  // namespace chimera
