#include "chimera/runtime/launched_process.h"

#include <gtest/gtest.h>

#include <map>

namespace chimera {
namespace {

std::optional<LaunchedProcess> launched_with(const std::map<std::string, std::string>& variables) {
  return launched_process([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(LaunchedProcess, IsNoneWithoutALauncher) {
  EXPECT_FALSE(launched_with({}));
  EXPECT_FALSE(
      launched_with({{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}}));  // in an sbatch script
}

TEST(LaunchedProcess, IsReadFromEachLauncher) {
  const auto open_mpi =
      launched_with({{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "8"}});
  ASSERT_TRUE(open_mpi);
  EXPECT_EQ(open_mpi->rank, 3);
  EXPECT_EQ(open_mpi->size, 8);
  EXPECT_EQ(open_mpi->launcher, "mpirun");
  EXPECT_EQ(launched_with({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}})->size, 1);
  EXPECT_EQ(launched_with({{"SLURM_PROCID", "5"}, {"SLURM_STEP_NUM_TASKS", "6"}})->rank, 5);
}

TEST(LaunchedProcess, PrefersMpirunWithinSlurm) {
  const auto process = launched_with({{"OMPI_COMM_WORLD_RANK", "3"},
                                      {"OMPI_COMM_WORLD_SIZE", "8"},
                                      {"SLURM_PROCID", "0"},
                                      {"SLURM_STEP_NUM_TASKS", "2"}});
  EXPECT_EQ(process->rank, 3);
}

TEST(LaunchedProcess, BelievesNoNonsense) {
  for (const char* rank : {"", "x", "-1", "8", "3 ", "99999999999"}) {
    EXPECT_FALSE(launched_with({{"PMI_RANK", rank}, {"PMI_SIZE", "8"}})) << rank;
  }
}

}  // namespace
}  // namespace chimera
