// Costs: how long things take. The simulator's input, measured or given by hand.
// All times in seconds, sizes in bytes. A plain value.
#pragma once

#include <limits>
#include <vector>

#include "chimera/schedule/action.h"

namespace chimera {

struct Costs {
  // One element a stage, for one micro-batch; an action of span k takes k times as long.
  std::vector<double> forward_s;
  std::vector<double> backward_s;   // I and W take half of it each where they are apart
  std::vector<double> recompute_s;  // or empty: as long as the forward

  // A message of L bytes arrives latency + L / bandwidth after its send (alpha + beta L), and keeps
  // its channel busy for L / bandwidth.
  double latency_s = 0;
  double bandwidth = std::numeric_limits<double>::infinity();  // bytes per second
  std::vector<double>
      boundary_bytes;  // activation and gradient between stages s and s + 1; or empty

  // An all-reduce ends this long after the last member of its stage group began; or empty.
  std::vector<double> reduce_s;
  double step_s = 0;  // the optimizer

  // Every stage alike, nothing else costs.
  static Costs uniform(int stages, double forward_s, double backward_s);

  [[nodiscard]] double compute(const Action& action) const;
  [[nodiscard]] double message_bytes(const Action& send) const;
  [[nodiscard]] double reduce(int stage) const;
};

}  // namespace chimera
