#include "chimera/plan/machine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "chimera/base/error.h"
#include "chimera/base/text.h"

namespace chimera {
namespace {

constexpr const char* kText = R"(
format = "chimera-machine-1"
name = "two nodes"
source = "round numbers"
nodes = 2
devices_per_node = 2
memory_gb = [10, 10, 6, 10]
reserved_gb = 1
[p2p.within]
latency_s = 1e-6
bytes_per_s = 2e10
[p2p.between]
latency_s = 1e-5
bytes_per_s = 1e9
[all_reduce]
latency_s = 2e-5
bytes_per_s = 5e8
)";

std::string machine_refusal(const std::string& text) {
  try {
    (void)parse_machine(text, "m.toml");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  return "";
}

std::string changed(std::string_view from, std::string_view to) {
  std::string text = kText;
  text.replace(text.find(from), from.size(), to);
  return text;
}

TEST(Machine, IsReadAndPrintedTheSame) {
  const Machine machine = parse_machine(kText, "m.toml");
  EXPECT_EQ(machine.devices(), 4);
  EXPECT_EQ(machine.node(2), 1);
  EXPECT_DOUBLE_EQ(machine.limit_bytes(2), 5e9);
  EXPECT_DOUBLE_EQ(machine.within.p2p.bandwidth, 2e10);
  EXPECT_EQ(machine.within.reduce, machine.between.reduce);
  EXPECT_EQ(parse_machine(print(machine), "again"), machine);
  for (const std::string_view name : kPresets) {
    const Machine known = preset(name);
    EXPECT_EQ(parse_machine(print(known), name), known);
    EXPECT_FALSE(known.source.empty());
  }
}

TEST(Machine, SaysHowAllReducesAreDoneOnlyWhereItIsNotThePapersFormula) {
  const Machine plain = parse_machine(kText, "m.toml");
  EXPECT_EQ(plain.reduce_by, AllReduce::kRabenseifner);
  EXPECT_EQ(plain.reduce_start_s, 0);
  EXPECT_EQ(print(plain).find("all_reduce_"), std::string::npos);
  for (const auto& [word, by] : {std::pair{"ring", AllReduce::kRing},
                                 std::pair{"recursive-doubling", AllReduce::kRecursiveDoubling}}) {
    const std::string keys = cat("all_reduce_by = \"", word, "\"\nall_reduce_start_s = 0.5\n");
    const Machine machine = parse_machine(changed("[p2p.within]", keys + "[p2p.within]"), "m.toml");
    EXPECT_EQ(machine.reduce_by, by);
    EXPECT_EQ(machine.reduce_start_s, 0.5);
    EXPECT_EQ(parse_machine(print(machine), "again"), machine);
  }
}

TEST(Machine, WithoutMemoryHasNoLimit) {
  EXPECT_EQ(parse_machine(changed("memory_gb = [10, 10, 6, 10]\nreserved_gb = 1", ""), "m")
                .limit_bytes(3),
            HUGE_VAL);
}

TEST(Machine, RefusalsNameFileKeyAndValue) {
  struct Case {
    std::string text, part;
  };
  const std::vector<Case> cases = {
      {changed("nodes = 2", "nodes = 0"), "m.toml: nodes is 0"},
      {changed("nodes = 2", "nodes = -3"), "m.toml: nodes is -3"},
      {changed("nodes = 2", "nodes = 9999999"), "from 1 to 1048576"},
      {changed("nodes = 2", "nodes = 1000000"), "at most 1048576 devices in all"},
      {changed("nodes = 2", "nods = 2"), "nodes is missing"},
      {changed("name =", "colour = 1\nname ="), "unknown key 'colour'"},
      {changed("[10, 10, 6, 10]", "[10, 10]"), "one for each of the 4 devices"},
      {changed("[10, 10, 6, 10]", "[10, 10, 0, 10]"), "a number from 1e-15 to 1e+15, or a list"},
      {changed("[10, 10, 6, 10]", "0.5"), "reserved_gb is 1"},
      {changed("latency_s = 1e-6", "latency_s = -1"), "p2p: within: latency_s is -1"},
      {changed("bytes_per_s = 5e8", ""), "all_reduce: bytes_per_s is missing"},
      {changed("bytes_per_s = 5e8", "bytes_per_s = 0"), "a number from 1e-15 to 1e+15"},
      {changed("bytes_per_s = 5e8", "bytes_per_s = 1e-300"), "expected a number from 1e-15 to"},
      {changed("nodes = 2", "nodes = 2\ntime_scale = 1e308"),
       "time_scale is 1e+308; expected a number from"},
      {changed("nodes = 2", "nodes = 2\naction_s = inf"),
       "action_s is inf; expected a number from 0 to"},
      {changed("[p2p.between]", "[p2p.betwen]"), "between is missing"},
      {changed("name =", "all_reduce_by = \"tree\"\nname ="),
       "rabenseifner, ring, recursive-doubling"},
      {changed("name =", "all_reduce_start_s = -1\nname ="), "all_reduce_start_s is -1"},
      {changed("chimera-machine-1", "other"), "format is"},
      {"nodes = ", "m.toml:1:"},
  };
  for (const Case& c : cases) {
    EXPECT_NE(machine_refusal(c.text).find(c.part), std::string::npos) << machine_refusal(c.text);
  }
  EXPECT_THROW((void)load_machine("piz-dant"), Error);
  EXPECT_THROW((void)load_machine("no/such.toml"), Error);
}

}  // namespace
}  // namespace chimera
