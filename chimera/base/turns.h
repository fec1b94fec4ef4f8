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

// Of several resources, some of which each thing needs at the same time. Each has lanes: so many
// things can go on there at once.
class SharedTurns {
 public:
  explicit SharedTurns(std::size_t resources, int lanes = 1)
      : free_s_(resources, std::vector<double>(static_cast<std::size_t>(lanes), 0.0)) {}

  // Begins when each of the resources has a lane that all asked for before it have left.
  double end(double ready_s, std::span<const int> resources, double lasts_s) {
    double start_s = ready_s;
    for (const int resource : resources) start_s = std::max(start_s, next_lane(resource));
    for (const int resource : resources) next_lane(resource) = start_s + lasts_s;
    return start_s + lasts_s;
  }

 private:
  double& next_lane(int resource) {
    auto& lanes = free_s_[static_cast<std::size_t>(resource)];
    return *std::min_element(lanes.begin(), lanes.end());
  }

  std::vector<std::vector<double>> free_s_;
};

}  // namespace chimera
