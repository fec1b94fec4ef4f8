#include "bench/undisturbed.h"

#include <utility>

namespace chimera {
namespace {

double behind(const Emulation& emulation) { return emulation.lag_s / emulation.step_s; }

}  // namespace

bool is_disturbed(const Emulation& emulation) {
  constexpr double kMost = 0.01;
  return behind(emulation) > kMost;
}

Undisturbed emulate_undisturbed(const EmulationSetting& setting, int most_tries) {
  Undisturbed best{.emulation = emulate(setting), .tries = 1};
  while (best.tries < most_tries && is_disturbed(best.emulation)) {
    Emulation again = emulate(setting);
    if (behind(again) < behind(best.emulation)) best.emulation = std::move(again);
    ++best.tries;
  }
  return best;
}

}  // namespace chimera
