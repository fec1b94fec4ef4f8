// The options that name a profile and a machine, shared by plan, emulate and train --auto.
#pragma once

#include <optional>
#include <string>

#include "chimera/job/config.h"
#include "chimera/plan/plan.h"

namespace CLI {
class App;
}  // namespace CLI

namespace chimera {

struct PlanInputs {
  std::string profile, machine;  // empty: those of the configuration
  std::string memory;            // GB of a device, one number or one for each; empty: the machine's

  void add(CLI::App& app);

  // Throws Error for files that cannot be read or do not fit; (kUsage) where none is named.
  [[nodiscard]] Profile load_profile(const Config* config) const;
  // `ranks` is the number of devices of the machine "this", whose links are the profile's.
  [[nodiscard]] Machine load_machine(const Config* config, const Profile& profile, int ranks) const;
  // --memory takes the place of pipeline.memory, too: where it is one number, what is planned is
  // then trained with that limit; a list is of devices, and pipeline.memory of workers.
  [[nodiscard]] Config with_memory(Config config) const;
  [[nodiscard]] std::string profile_path(const Config* config) const;
  [[nodiscard]] std::string machine_name(const Config* config) const;
};

// The machine that this program runs on: `ranks` devices that share its memory, and the links of
// the profile, which must have them.
[[nodiscard]] Machine this_machine(const Profile& profile, int ranks);

}  // namespace chimera
