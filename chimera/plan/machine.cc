#include "chimera/plan/machine.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <sstream>

#include "chimera/base/error.h"
#include "chimera/base/file.h"
#include "chimera/base/number.h"
#include "chimera/base/text.h"
#include "chimera/plan/toml_table.h"

namespace chimera {
namespace {

constexpr std::string_view kMachineFormat = "chimera-machine-1";
constexpr double kGiga = 1e9;

// One GPU a node: the links within a node are never used, and given like those between nodes.
constexpr std::string_view kPizDaint = R"(
format = "chimera-machine-1"
name = "Piz Daint"
source = """Cray XC50: one P100 (16 GB) a node, Aries dragonfly, PyTorch over GLOO. time_scale and
the all-reduce's start and bandwidth are fitted to the throughputs of Chimera's paper on its smaller
machines (figure 14: 16 and 32 nodes; figure 15: 512 and 1,024), reserved_gb to figure 9 and rounded
up so that figure 1's mark of DAPPLE out of memory is met (bench/paper). all_reduce_by was chosen
among three in sight of the largest machines (64 and 2,048 nodes), and one all-reduce at a time in
sight of figure 19. time_scale is what training takes over the published times of single layers. The
bandwidth of messages is about what a node of this network can send; the fit does not tell it."""
nodes = 5704
devices_per_node = 1
memory_gb = 16
reserved_gb = 0.3
time_scale = 1.495
action_s = 0
all_reduce_by = "recursive-doubling"
all_reduce_start_s = 0.166

[p2p]
latency_s = 2e-5
bytes_per_s = 1e10

[all_reduce]
latency_s = 2e-5
bytes_per_s = 6.83e9
)";

constexpr std::string_view kV100Cluster = R"(
format = "chimera-machine-1"
name = "V100 cluster"
source = """Four servers of eight V100 (32 GB), NVLink within, InfiniBand between them. Figures to
begin with: half of what the links can do; not fitted."""
nodes = 4
devices_per_node = 8
memory_gb = 32
reserved_gb = 0.5
time_scale = 1
action_s = 0

[p2p.within]
latency_s = 1e-5
bytes_per_s = 2.5e10
[p2p.between]
latency_s = 2e-5
bytes_per_s = 6e9

[all_reduce.within]
latency_s = 1e-5
bytes_per_s = 2.5e10
[all_reduce.between]
latency_s = 2e-5
bytes_per_s = 6e9
)";

Link read_machine_link(TomlTable table) {
  Link link;
  link.latency_s = table.number("latency_s", false);
  link.bandwidth = table.number("bytes_per_s", true);
  table.finish();
  return link;
}

// In the order of AllReduce.
constexpr std::array<std::string_view, 3> kAllReduces = {"rabenseifner", "ring",
                                                         "recursive-doubling"};

AllReduce read_all_reduce(TomlTable& table) {
  constexpr std::string_view kKey = "all_reduce_by";
  const std::string value = table.text(kKey, std::string(kAllReduces.front()));
  const auto* found = std::find(kAllReduces.begin(), kAllReduces.end(), value);
  if (found == kAllReduces.end()) table.refuse(kKey, cat("one of: ", join(kAllReduces)));
  return static_cast<AllReduce>(found - kAllReduces.begin());
}

// [p2p] of all messages, or [p2p.within] and [p2p.between] of those within and between nodes.
void read_links(TomlTable table, Link& within, Link& between) {
  if (!table.has("within") && !table.has("between")) {
    within = between = read_machine_link(std::move(table));
    return;
  }
  within = read_machine_link(table.table("within"));
  between = read_machine_link(table.table("between"));
  table.finish();
}

void read_devices(TomlTable& table, Machine& machine) {
  constexpr std::int64_t kMost = 1 << 20;
  machine.nodes = static_cast<int>(table.integer("nodes", 1, kMost));
  machine.devices_per_node = static_cast<int>(table.integer("devices_per_node", 1, kMost));
  if (machine.devices_per_node > kMost / machine.nodes) {
    table.refuse("nodes", cat("at most ", kMost, " devices in all"));
  }
}

void read_memory(TomlTable& table, Machine& machine) {
  machine.memory_bytes = table.numbers("memory_gb");
  for (double& bytes : machine.memory_bytes) bytes *= kGiga;
  const auto limits = std::ssize(machine.memory_bytes);
  if (limits > 1 && limits != machine.devices()) {
    table.refuse("memory_gb",
                 cat("one number, or one for each of the ", machine.devices(), " devices"));
  }
  machine.reserved_bytes = kGiga * table.number("reserved_gb", false, 0.0);
  const auto least = std::min_element(machine.memory_bytes.begin(), machine.memory_bytes.end());
  if (least != machine.memory_bytes.end() && *least <= machine.reserved_bytes) {
    table.refuse("reserved_gb", "less than memory_gb");
  }
}

void print_machine_links(std::ostream& out, std::string_view name, const Link& within,
                         const Link& between) {
  const auto one = [&](std::string_view part, const Link& link) {
    out << "\n[" << name << part << "]\nlatency_s = " << exact_text(link.latency_s)
        << "\nbytes_per_s = " << exact_text(link.bandwidth) << "\n";
  };
  if (within == between) return one("", within);
  one(".within", within);
  one(".between", between);
}

}  // namespace

double Machine::limit_bytes(int rank) const {
  if (memory_bytes.empty()) return std::numeric_limits<double>::infinity();
  const auto device = memory_bytes.size() == 1 ? std::size_t{0} : static_cast<std::size_t>(rank);
  return memory_bytes[device] - reserved_bytes;
}

Machine preset(std::string_view name) {
  if (name == kPresets[0]) return parse_machine(kPizDaint, name);
  if (name == kPresets[1]) return parse_machine(kV100Cluster, name);
  throw Error(ErrorCode::kUsage, unknown_word("machine", name, kPresets));
}

Machine parse_machine(std::string_view text, std::string_view source) {
  const toml::table parsed = parse_toml_text(text, source);
  TomlTable table(parsed, std::string(source));
  if (table.text("format") != kMachineFormat) table.refuse("format", toml_text(kMachineFormat));
  Machine machine;
  machine.name = table.line("name");
  machine.source = table.text("source");
  read_devices(table, machine);
  read_memory(table, machine);
  machine.time_scale = table.number("time_scale", true, 1.0);
  machine.action_s = table.number("action_s", false, 0.0);
  read_links(table.table("p2p"), machine.within.p2p, machine.between.p2p);
  read_links(table.table("all_reduce"), machine.within.reduce, machine.between.reduce);
  machine.reduce_by = read_all_reduce(table);
  machine.reduce_start_s = table.number("all_reduce_start_s", false, 0.0);
  constexpr std::int64_t kMostAtOnce = 1 << 10;
  machine.reduces_at_once =
      static_cast<int>(table.integer("all_reduces_at_once", 1, kMostAtOnce, 1));
  table.finish();
  return machine;
}

std::string print(const Machine& machine) {
  std::ostringstream out;
  out << "format = " << toml_text(kMachineFormat) << "\nname = " << toml_text(machine.name)
      << "\nsource = " << toml_text(machine.source) << "\nnodes = " << machine.nodes
      << "\ndevices_per_node = " << machine.devices_per_node << "\n";
  std::vector<std::string> memory;
  for (const double bytes : machine.memory_bytes) memory.push_back(exact_text(bytes / kGiga));
  if (memory.size() == 1) out << "memory_gb = " << memory.front() << "\n";
  if (memory.size() > 1) out << "memory_gb = [" << join(memory) << "]\n";
  if (machine.reduce_by != AllReduce::kRabenseifner) {
    out << "all_reduce_by = " << toml_text(kAllReduces[static_cast<std::size_t>(machine.reduce_by)])
        << "\n";
  }
  if (machine.reduce_start_s > 0) {
    out << "all_reduce_start_s = " << exact_text(machine.reduce_start_s) << "\n";
  }
  if (machine.reduces_at_once > 1) {
    out << "all_reduces_at_once = " << machine.reduces_at_once << "\n";
  }
  out << "reserved_gb = " << exact_text(machine.reserved_bytes / kGiga)
      << "\ntime_scale = " << exact_text(machine.time_scale)
      << "\naction_s = " << exact_text(machine.action_s) << "\n";
  print_machine_links(out, "p2p", machine.within.p2p, machine.between.p2p);
  print_machine_links(out, "all_reduce", machine.within.reduce, machine.between.reduce);
  return out.str();
}

void check_devices(const Machine& machine, int ranks) {
  if (ranks <= machine.devices()) return;
  throw Error(ErrorCode::kUsage, cat("the number of ranks is ", ranks, "; expected at most ",
                                     machine.devices(), ", the devices of ", machine.name));
}

Machine load_machine(const std::string& name_or_path) {
  if (std::find(kPresets.begin(), kPresets.end(), name_or_path) != kPresets.end()) {
    return preset(name_or_path);
  }
  // What is not there and does not look like a file is more likely a misspelt preset.
  if (name_or_path.find_first_of("./") == std::string::npos &&
      !std::filesystem::exists(name_or_path)) {
    throw Error(ErrorCode::kUsage,
                cat(unknown_word("machine", name_or_path, kPresets), "; or 'this', or a file"));
  }
  return parse_machine(read_file(name_or_path), name_or_path);
}

}  // namespace chimera
