// The options that name a profile and a machine, shared by plan, emulate and train --auto.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chimera/job/config.h"
#include "chimera/plan/plan.h"

namespace CLI {
class App;
}  // namespace CLI

namespace chimera {

inline constexpr std::string_view kThisMachine = "this";  // beside the presets

struct PlanInputs {
  std::string profile, machine;  // empty: those of the configuration
  std::string memory;            // GB of a device, one number or one for each; empty: the machine's

  void add(CLI::App& app);

  // Throws Error for files that cannot be read or do not fit; (kUsage) where none is named.
  [[nodiscard]] Profile load_profile(const Config* config) const;
  // `ranks` is the number of devices of the machine "this", whose links are the profile's.
  [[nodiscard]] Machine load_machine(const Config* config, const Profile& profile, int ranks) const;
  // --memory takes the place of pipeline.memory, too.
  [[nodiscard]] Config with_memory(Config config) const;
  // The configuration with the candidate's pipeline; what --memory said of devices becomes
  // pipeline.memory, of workers, so that what was planned is trained with those limits.
  [[nodiscard]] Config planned(Config config, const Candidate& candidate,
                               const Machine& machine) const;
  // For refuse_overwriting: the configuration's file, and what is named here or in it. Not all need
  // be files: presets and empty texts are among them.
  [[nodiscard]] std::vector<std::string> files(const std::string& config_path,
                                               const Config* config) const;
  [[nodiscard]] std::string profile_path(const Config* config) const;
  [[nodiscard]] std::string machine_name(const Config* config) const;
};

}  // namespace chimera
