#include "chimera/cli/plan_options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/job/memory_plan.h"
#include "chimera/job/planned.h"

namespace chimera {
namespace {

constexpr std::string_view kThisMachine = "this";

}  // namespace

void PlanInputs::add(CLI::App& app) {
  app.add_option("--profile", profile, "What layers cost, from 'chimera profile'")
      ->type_name("FILE");
  app.add_option("--machine", machine,
                 "Devices and links: a file, 'piz-daint', 'v100-cluster', or 'this' (default)")
      ->type_name("FILE");
  app.add_option("--memory", memory,
                 "Gigabytes of each device in place of the machine's, one number or one for each")
      ->type_name("GB");
}

std::string PlanInputs::profile_path(const Config* config) const {
  if (!profile.empty()) return profile;
  if (config != nullptr && !config->plan.profile.empty()) return config->plan.profile;
  throw Error(ErrorCode::kUsage,
              "no profile says what layers cost; give --profile FILE, which 'chimera profile "
              "CONFIG -o FILE' measures");
}

std::string PlanInputs::machine_name(const Config* config) const {
  if (!machine.empty()) return machine;
  if (config != nullptr && !config->plan.machine.empty()) return config->plan.machine;
  return std::string(kThisMachine);
}

Profile PlanInputs::load_profile(const Config* config) const {
  const std::string path = profile_path(config);
  Profile loaded = chimera::load_profile(path);
  return config == nullptr ? loaded : profile_for(*config, std::move(loaded), path);
}

Machine PlanInputs::load_machine(const Config* config, const Profile& loaded, int ranks) const {
  const std::string name = machine_name(config);
  Machine found = name == kThisMachine ? this_machine(loaded, ranks) : chimera::load_machine(name);
  if (memory.empty()) return found;
  found.memory_bytes = parse_memory("--memory", memory, found.devices(), "devices");
  found.reserved_bytes = 0;
  return found;
}

Config PlanInputs::with_memory(Config config) const {
  if (memory.empty()) return config;
  config.pipeline.memory = memory.find(',') == std::string::npos ? memory : "";
  return config;
}

Machine this_machine(const Profile& profile, int ranks) {
  const bool knows_links = profile.p2p && profile.reduce;
  if (ranks > 1 && !knows_links) {
    throw Error(ErrorCode::kUsage,
                cat("the profile has no ", profile.p2p ? "[all_reduce]" : "[p2p]",
                    ", so what messages cost on this machine is not known; profile on it "
                    "(chimera profile), or name a machine (--machine)"));
  }
  Machine machine;
  machine.name = "this machine";
  machine.source = "its memory, and the links of the profile";
  machine.devices_per_node = std::max(1, ranks);
  const double memory =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  machine.memory_bytes = {memory / machine.devices_per_node};
  if (knows_links) machine.within = machine.between = {profile.p2p->link, profile.reduce->link};
  return machine;
}

}  // namespace chimera
