// When things end that go one after the other on what they share: messages on a channel, sums on
// the links of their members. The one rule of the simulator, which knows all times, and of emulated
// links, which learn them as they come. Times are in seconds of whichever clock the caller has.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace chimera {

// Of one resource.
class Turns {
 public:
  // The end of what is ready at this time and lasts so long: it begins when all asked for before it
  // have ended.
  double end(double ready_s, double lasts_s) {
    free_s_ = std::max(free_s_, ready_s) + lasts_s;
    return free_s_;
  }

 private:
  double free_s_ = 0;
};

// Of several resources, some of which each thing needs at the same time.
class SharedTurns {
 public:
  explicit SharedTurns(std::size_t resources) : free_s_(resources, 0.0) {}

  // Begins when all asked for before it have ended that need one of the same resources.
  double end(double ready_s, std::span<const int> resources, double lasts_s) {
    double start_s = ready_s;
    for (const int resource : resources) start_s = std::max(start_s, at(resource));
    for (const int resource : resources) at(resource) = start_s + lasts_s;
    return start_s + lasts_s;
  }

 private:
  double& at(int resource) { return free_s_[static_cast<std::size_t>(resource)]; }

  std::vector<double> free_s_;
};

}  // namespace chimera
