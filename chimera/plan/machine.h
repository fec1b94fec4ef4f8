// A machine: how many devices, what each can hold, and what messages between them cost. A TOML file
// (docs/formats.md), or one of the presets.
//
// Plain values; bytes and seconds. Ranks are laid over devices in order: rank r on device r, nodes
// filled one after the other.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "chimera/simulate/costs.h"

namespace chimera {

// By halving and doubling (Rabenseifner), along a ring, or by recursive doubling; the times are in
// layout.h.
enum class AllReduce { kRabenseifner, kRing, kRecursiveDoubling };

struct Machine {
  std::string name;
  std::string source;  // where the constants come from, and what those that are fitted are from
  int nodes = 1;
  int devices_per_node = 1;
  // Bytes of each device, or one number for all, or none: no limit. `reserved` of each are not for
  // us (the driver's context, a framework's own).
  std::vector<double> memory_bytes;
  double reserved_bytes = 0;
  double time_scale = 1;  // of the profile's times on this machine's devices
  double action_s = 0;    // more for each forward, backward and recompute than the profile says
  struct Links {
    Link p2p, reduce;  // a message; a hop of an all-reduce
    friend bool operator==(const Links&, const Links&) = default;
  };
  Links within, between;  // nodes
  AllReduce reduce_by = AllReduce::kRabenseifner;
  double reduce_start_s = 0;  // of each all-reduce, whatever its size and its ranks
  int reduces_at_once = 1;    // in how many a worker takes part at a time

  [[nodiscard]] int devices() const { return nodes * devices_per_node; }
  [[nodiscard]] int node(int rank) const { return rank / devices_per_node; }
  // What a rank may hold; infinity where there is no limit. Requires rank < devices().
  [[nodiscard]] double limit_bytes(int rank) const;

  friend bool operator==(const Machine&, const Machine&) = default;
};

// "piz-daint", "v100-cluster".
inline constexpr std::array<std::string_view, 2> kPresets = {"piz-daint", "v100-cluster"};
[[nodiscard]] Machine preset(std::string_view name);  // throws Error (kUsage)

// Throws Error (kUsage) with file and key for what is missing, unknown or out of range.
[[nodiscard]] Machine parse_machine(std::string_view text, std::string_view source);
[[nodiscard]] std::string print(const Machine& machine);  // parses to the same

// Throws Error (kUsage) where ranks have no device.
void check_devices(const Machine& machine, int ranks);

// A preset's name or a file. Throws Error, also (kIo).
[[nodiscard]] Machine load_machine(const std::string& name_or_path);

}  // namespace chimera
