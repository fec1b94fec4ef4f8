// The schedules we can generate, by name. One file a schedule; this table lists them.
//
// A generator is a pure function of its Spec. What it cannot build it refuses with Error (kUsage)
// that names the nearest legal values; what it returns verifies (generate_test.cc, exhaustively).
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chimera/schedule/schedule.h"

namespace chimera {

// The ways to more micro-batches than stages (Chimera, section 3.5).
enum class Method { kDirect, kDoubling, kHalving };

inline constexpr std::array<std::string_view, 3> kMethods = {"direct", "doubling", "halving"};

struct Spec {
  int stages = 0;                     // D
  int micros = 0;                     // N, of one group in one step
  std::optional<int> pairs = {};      // f, for schedules of pipe pairs; 1 unless given
  std::optional<Method> method = {};  // for schedules that have them; direct unless given
  bool fused = false;                 // doubling: a pair of forwards as one action
  std::optional<int> steps = {};  // for asynchronous schedules, which do not drain between steps: 1
                                  // unless given
};

struct Generator {
  std::string_view name;
  std::string_view summary;   // one line for --help
  bool paired = false;        // takes Spec::pairs
  bool even_stages = false;   // exists for even D only
  bool methods = false;       // takes Spec::method and fused
  bool asynchronous = false;  // takes Spec::steps; weights change before all work of a step is done
  Schedule (*make)(const Spec& spec) = nullptr;
};

[[nodiscard]] std::span<const Generator> generators();

// By name; throws Error that lists the names.
[[nodiscard]] Method method(std::string_view name);
[[nodiscard]] const Generator& generator(std::string_view name);

// With its method: "chimera doubling fused".
[[nodiscard]] std::string name_with_method(const Generator& generator, const Spec& spec);

// The numbers of pipe pairs that a schedule of pairs may have: the divisors of half its stages.
[[nodiscard]] std::vector<int> legal_pairs(int stages);

// Checks the spec and builds the schedule. Throws Error for an unknown name (with the nearest), for
// numbers out of range, and for what the schedule cannot be (with the nearest that it can).
[[nodiscard]] Schedule generate(std::string_view name, const Spec& spec);

}  // namespace chimera
