#include "chimera/runtime/launched_process.h"

#include <cstdlib>

#include "chimera/base/number.h"

namespace chimera {
namespace {

struct Launcher {
  const char* name;
  const char* rank;
  const char* size;
};

// The first that is there: under Slurm, mpirun's processes have srun's variables too, which are
// those of the daemon that started them.
constexpr Launcher kLaunchers[] = {
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"mpiexec", "PMI_RANK", "PMI_SIZE"},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
};

std::optional<int> count_in(const char* text) {
  const auto value = text == nullptr ? std::nullopt : parse_number<int>(text);
  return value && *value >= 0 ? value : std::nullopt;
}

}  // namespace

std::optional<LaunchedProcess> launched_process(const Environment& environment) {
  for (const Launcher& launcher : kLaunchers) {
    const auto rank = count_in(environment(launcher.rank));
    const auto size = count_in(environment(launcher.size));
    if (rank && size && *rank < *size) return LaunchedProcess{*rank, *size, launcher.name};
  }
  return {};
}

std::optional<LaunchedProcess> launched_process() {
  return launched_process([](const char* name) { return std::getenv(name); });
}

}  // namespace chimera
