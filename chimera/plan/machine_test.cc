#include "chimera/plan/machine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "chimera/base/error.h"
#include "chimera/base/random.h"
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

// Every field as another one would have it.
Machine odd_machine(std::uint64_t seed) {
  const RandomStream stream(seed, 11, 12);
  std::uint64_t next = 0;
  const auto number = [&](double most) { return most * (0.01 + stream.uniform(next++)); };
  const auto link = [&] { return Link{number(1e-3), number(1e10)}; };
  Machine machine;
  machine.name = cat("machine \"", seed, "\"");
  machine.source = "two\nlines";
  machine.nodes = 1 + static_cast<int>(number(5));
  machine.devices_per_node = 1 + static_cast<int>(number(8));
  const int caps = seed % 3 == 0 ? 0 : seed % 3 == 1 ? 1 : machine.devices();
  for (int i = 0; i < caps; ++i) machine.memory_bytes.push_back(1e9 + number(1e11));
  machine.reserved_bytes = caps > 0 ? number(9e8) : 0;
  machine.time_scale = number(2);
  machine.action_s = number(1e-3);
  machine.within = {link(), link()};
  machine.between = seed % 2 == 0 ? machine.within : Machine::Links{link(), link()};
  machine.reduce_by = static_cast<AllReduce>(seed % 3);
  machine.reduce_start_s = seed % 4 == 0 ? 0 : number(0.5);
  machine.reduces_at_once = 1 + static_cast<int>(seed % 5);
  return machine;
}

TEST(Machine, OfAnyKindIsReadAsItWasPrinted) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const Machine machine = odd_machine(seed);
    Machine again = parse_machine(print(machine), "again");
    // Gigabytes in the file: the last digit may be another.
    ASSERT_EQ(again.memory_bytes.size(), machine.memory_bytes.size());
    for (std::size_t i = 0; i < again.memory_bytes.size(); ++i) {
      EXPECT_DOUBLE_EQ(again.memory_bytes[i], machine.memory_bytes[i]);
    }
    EXPECT_DOUBLE_EQ(again.reserved_bytes, machine.reserved_bytes);
    again.memory_bytes = machine.memory_bytes;
    again.reserved_bytes = machine.reserved_bytes;
    EXPECT_EQ(again, machine) << print(machine);
  }
}

// All keys there are, each on its own line.
constexpr const char* kWhole = R"(
format = "chimera-machine-1"
name = "whole"
source = "round numbers"
nodes = 2
devices_per_node = 2
memory_gb = 16
reserved_gb = 1
time_scale = 1.5
action_s = 1e-6
all_reduce_by = "ring"
all_reduce_start_s = 0.1
all_reduces_at_once = 2
[p2p.within]
latency_s = 1e-6
bytes_per_s = 2e10
[p2p.between]
latency_s = 1e-5
bytes_per_s = 1e9
[all_reduce.within]
latency_s = 2e-5
bytes_per_s = 5e8
[all_reduce.between]
latency_s = 3e-5
bytes_per_s = 6e8
)";

bool is_of_numbers(std::string_view key) {
  return key != "format" && key != "name" && key != "source" && key != "all_reduce_by";
}

bool may_be_missing(std::string_view key) {
  constexpr std::array<std::string_view, 7> kOptional = {
      "memory_gb",     "reserved_gb",        "time_scale",         "action_s",
      "all_reduce_by", "all_reduce_start_s", "all_reduces_at_once"};
  return std::ranges::count(kOptional, key) > 0;
}

// The file with one line changed; the key that the line has, and its section.
struct Line {
  std::vector<std::string> lines;
  std::size_t at;
  std::string key, section;

  [[nodiscard]] std::string with(const std::string& line) const {
    std::vector<std::string> changed = lines;
    changed[at] = line;
    return join(changed, "\n");
  }
  [[nodiscard]] std::string with_value(const std::string& value) const {
    return with(cat(key, " = ", value));
  }
};

std::vector<Line> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for (const std::string_view line : split(text, '\n')) lines.emplace_back(line);
  std::vector<Line> all;
  std::string section;
  for (std::size_t at = 0; at < lines.size(); ++at) {
    if (lines[at].starts_with("["))
      section = lines[at].substr(1, lines[at].find_first_of(".]") - 1);
    const auto end = lines[at].find(" = ");
    if (end == std::string::npos) continue;
    all.push_back({lines, at, lines[at].substr(0, end), section});
  }
  return all;
}

void expect_line(const std::string& text, const std::vector<std::string>& parts) {
  const std::string seen = machine_refusal(text);
  EXPECT_TRUE(seen.starts_with("m.toml:")) << "'" << seen << "' for\n" << text;
  EXPECT_EQ(seen.find('\n'), std::string::npos) << seen;
  for (const std::string& part : parts) {
    EXPECT_NE(seen.find(part), std::string::npos) << seen << "\nexpected: " << part;
  }
}

TEST(Machine, RefusesBadNumbersOfEveryKey) {
  EXPECT_EQ(machine_refusal(kWhole), "");
  int keys = 0;
  for (const Line& line : lines_of(kWhole)) {
    if (!is_of_numbers(line.key)) continue;
    ++keys;
    for (const char* value : {"\"2\"", "true", "nan", "inf", "-inf", "-1", "1e300", "{ a = 1 }",
                              "[]", "[\"x\"]", "1979-05-27"}) {
      expect_line(line.with_value(value), {line.section, cat(line.key, " is "), "; expected "});
    }
    const bool may_be_0 = line.key == "latency_s" || line.key == "reserved_gb" ||
                          line.key == "action_s" || line.key == "all_reduce_start_s";
    if (may_be_0) {
      EXPECT_EQ(machine_refusal(line.with_value("0")), "") << line.key;
    } else {
      expect_line(line.with_value("0"), {line.section, cat(line.key, " is 0; expected ")});
    }
  }
  EXPECT_EQ(keys, 16);
}

TEST(Machine, RefusesTextsThatAreNone) {
  for (const Line& line : lines_of(kWhole)) {
    if (is_of_numbers(line.key)) continue;
    for (const char* value : {"2", "true", "nan", "[\"x\"]"}) {
      expect_line(line.with_value(value), {cat(line.key, " is "), "; expected a text in quotes"});
    }
  }
}

TEST(Machine, RefusesKeysThatAreMissingMisspeltOrThereTwice) {
  for (const Line& line : lines_of(kWhole)) {
    const std::string& whole = line.lines[line.at];
    expect_line(line.with(cat(whole, "\nx", whole)), {"unknown key", cat("'x", line.key, "'")});
    expect_line(line.with(cat(whole, "\n", whole)), {line.key});
    if (may_be_missing(line.key)) {
      EXPECT_EQ(machine_refusal(line.with("")), "") << line.key;
    } else {
      expect_line(line.with(""), {line.section, cat(line.key, " is missing")});
    }
  }
}

TEST(Machine, RefusesSectionsThatAreMissingOrNone) {
  const auto without = [](std::string_view from, std::string_view to) {
    std::string text = kWhole;
    const auto begin = text.find(from);
    return text.replace(begin, to.empty() ? std::string::npos : text.find(to) - begin, "");
  };
  expect_line(without("[p2p.within]", "[all_reduce"), {"p2p is missing"});
  expect_line(without("[all_reduce.within]", ""), {"all_reduce is missing"});
  expect_line(without("[p2p.within]", "[p2p.between]"), {"p2p: within is missing"});
  expect_line(without("[all_reduce.between]", ""), {"all_reduce: between is missing"});
  expect_line("p2p = 3\n" + without("[p2p.within]", "[all_reduce"),
              {"p2p is 3; expected a section"});
  expect_line(cat(kWhole, "[p2p]\nlatency_s = 1\n"), {"latency_s"});
  expect_line(cat(kWhole, "[p2p.within]\nlatency_s = 1\n"), {"within"});
}

TEST(Machine, RefusesAsManyLimitsAsItHasNoDevices) {
  for (const char* caps : {"[16, 16]", "[16, 16, 16]", "[16, 16, 16, 16, 16]"}) {
    expect_line(changed("[10, 10, 6, 10]", caps),
                {"memory_gb is ", "one number, or one for each of the 4 devices"});
  }
  for (const char* cap : {"nan", "inf", "-1", "0", "\"6\"", "[6]"}) {
    expect_line(changed("[10, 10, 6, 10]", cat("[10, 10, ", cap, ", 10]")), {"memory_gb is "});
  }
  expect_line(changed("[10, 10, 6, 10]", "[10, 10, 1, 10]"), {"reserved_gb is 1"});
}

TEST(Machine, RefusalsSayTheRangeAndTheValue) {
  struct Case {
    std::string text, part;
  };
  const std::vector<Case> cases = {
      {changed("nodes = 2", "nodes = 9999999"), "from 1 to 1048576"},
      {changed("nodes = 2", "nodes = 1000000"), "at most 1048576 devices in all"},
      {changed("[10, 10, 6, 10]", "[10, 10, 0, 10]"), "a number from 1e-15 to 1e+15, or a list"},
      {changed("[10, 10, 6, 10]", "0.5"), "reserved_gb is 1"},
      {changed("latency_s = 1e-6", "latency_s = -1"), "p2p: within: latency_s is -1"},
      {changed("bytes_per_s = 5e8", "bytes_per_s = 0"), "a number from 1e-15 to 1e+15"},
      {changed("bytes_per_s = 5e8", "bytes_per_s = 1e-300"), "expected a number from 1e-15 to"},
      {changed("nodes = 2", "nodes = 2\ntime_scale = 1e308"),
       "time_scale is 1e+308; expected a number from"},
      {changed("nodes = 2", "nodes = 2\naction_s = inf"),
       "action_s is inf; expected a number from 0 to"},
      {changed("name =", "all_reduce_by = \"tree\"\nname ="),
       "rabenseifner, ring, recursive-doubling"},
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
