// Which cores a process gets, for machines that are not this one.
#include "chimera/runtime/cores.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace chimera {
namespace {

std::vector<Core> plain_cores(int count) {
  std::vector<Core> cores;
  for (int core = 0; core < count; ++core) cores.push_back({core});
  return cores;
}

// Hyperthreads as Linux mostly numbers them: core 0 has units 0 and `count`.
std::vector<Core> double_cores(int count) {
  std::vector<Core> cores;
  for (int core = 0; core < count; ++core) cores.push_back({core, core + count});
  return cores;
}

std::set<int> units_of(const std::vector<Core>& cores) {
  std::set<int> units;
  for (const Core& core : cores) units.insert(core.begin(), core.end());
  return units;
}

struct CoresCase {
  const char* what;
  std::vector<Core> cores;
  std::set<int> bound;
  int local_rank, local_size;
  std::vector<int> units;
  const char* text;
};

TEST(ChooseCores, GivesWholeNeighbouringCoresOrSaysWhyNot) {
  const std::set<int> all8 = units_of(plain_cores(8));
  const std::set<int> all4x2 = units_of(double_cores(4));
  const CoresCase cases[] = {
      {"one rank has all", plain_cores(2), {0, 1}, 0, 1, {0, 1}, "cores 0-1 of 2"},
      {"a core each", plain_cores(8), all8, 5, 8, {5}, "core 5 of 8"},
      {"two each", plain_cores(8), all8, 3, 4, {6, 7}, "cores 6-7 of 8"},
      {"uneven, first", plain_cores(8), all8, 0, 3, {0, 1}, "cores 0-1 of 8"},
      {"uneven, last", plain_cores(8), all8, 2, 3, {5, 6, 7}, "cores 5-7 of 8"},
      {"hyperthreads", double_cores(4), all4x2, 1, 4, {1, 5}, "core 1 of 4"},
      {"two with theirs", double_cores(4), all4x2, 1, 2, {2, 6, 3, 7}, "cores 2-3 of 4"},
      {"hyperthreads are no cores",
       double_cores(4),
       all4x2,
       0,
       8,
       {},
       "not bound: 8 ranks on 4 cores"},
      {"more ranks", plain_cores(2), {0, 1}, 9, 16, {}, "not bound: 16 ranks on 2 cores"},
      {"more than one", plain_cores(1), {0}, 1, 2, {}, "not bound: 2 ranks on 1 core"},
      {"a container's", {{4}, {6}, {9}}, {4, 6, 9}, 1, 3, {6}, "core 1 of 3"},
      {"more bound than there", plain_cores(2), {0, 1, 2, 3}, 1, 2, {1}, "core 1 of 2"},
      {"launcher: a core", plain_cores(8), {3}, 0, 8, {}, "bound at its start, to core 3 of 8"},
      {"launcher: several",
       plain_cores(8),
       {0, 2, 3},
       0,
       8,
       {},
       "bound at its start, to cores 0,2-3 of 8"},
      {"launcher: a hyperthread",
       double_cores(4),
       {6},
       0,
       1,
       {},
       "bound at its start, to core 2 of 4"},
      {"launcher: one of each",
       double_cores(4),
       {0, 1, 2, 3},
       0,
       1,
       {},
       "bound at its start, to cores 0-3 of 4"},
      {"launcher, more ranks", plain_cores(4), {1}, 7, 8, {}, "bound at its start, to core 1 of 4"},
      {"launcher: elsewhere",
       plain_cores(2),
       {7},
       0,
       1,
       {},
       "bound at its start, to none of 2 cores"},
  };
  for (const CoresCase& it : cases) {
    const CoreChoice choice = choose_cores(it.cores, it.bound, it.local_rank, it.local_size);
    EXPECT_EQ(choice.units, it.units) << it.what;
    EXPECT_EQ(choice.text, it.text) << it.what;
  }
}

TEST(ChooseCores, GivesEachCoreToOneRankAndLeavesNoneOver) {
  for (int count = 1; count <= 24; ++count) {
    const auto cores = double_cores(count);
    for (int ranks = 1; ranks <= count; ++ranks) {
      std::vector<int> given;
      for (int rank = 0; rank < ranks; ++rank) {
        const auto units = choose_cores(cores, units_of(cores), rank, ranks).units;
        EXPECT_GE(units.size() / 2, static_cast<std::size_t>(count / ranks))
            << count << " cores, " << ranks << " ranks";
        EXPECT_LE(units.size() / 2, static_cast<std::size_t>(count / ranks + 1))
            << count << " cores, " << ranks << " ranks";
        given.insert(given.end(), units.begin(), units.end());
      }
      std::sort(given.begin(), given.end());
      std::vector<int> all(2 * static_cast<std::size_t>(count));
      std::iota(all.begin(), all.end(), 0);
      EXPECT_EQ(given, all) << count << " cores, " << ranks << " ranks";
    }
  }
}

}  // namespace
}  // namespace chimera
