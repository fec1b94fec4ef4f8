#include "chimera/cli/plan_options.h"

#include <CLI/CLI.hpp>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/job/memory_plan.h"
#include "chimera/job/planned.h"
#include "chimera/plan/this_machine.h"

namespace chimera {
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

std::vector<std::string> PlanInputs::files(const std::string& config_path,
                                           const Config* config) const {
  std::vector<std::string> all = {config_path, profile, machine};
  if (config != nullptr) all.insert(all.end(), {config->plan.profile, config->plan.machine});
  return all;
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
  config.pipeline.memory = "";
  return config;
}

Config PlanInputs::planned(Config config, const Candidate& candidate,
                           const Machine& machine) const {
  config = with_candidate(std::move(config), candidate);
  if (memory.empty()) return config;
  if (memory.find(',') == std::string::npos) {
    config.pipeline.memory = memory;
    return config;
  }
  const Schedule schedule = generate(candidate.generator->name, candidate.spec);
  std::vector<std::string> gigabytes;
  for (const double bytes :
       layout_limits(machine, candidate_layout(candidate, schedule.placement))) {
    gigabytes.push_back(cat(bytes / 1e9));
  }
  config.pipeline.memory = join(gigabytes, ",");
  return config;
}

}  // namespace chimera
