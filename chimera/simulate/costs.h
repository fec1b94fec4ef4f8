// Costs: how long things take. The simulator's input, measured or given by hand.
// All times in seconds, sizes in bytes. A plain value.
#pragma once

#include <limits>
#include <map>
#include <span>
#include <vector>

#include "chimera/schedule/action.h"
#include "chimera/schedule/transfers.h"

namespace chimera {

// A message of L bytes arrives latency + L / bandwidth after its send (alpha + beta L), and keeps
// its channel busy for L / bandwidth.
struct Link {
  double latency_s = 0;
  double bandwidth = std::numeric_limits<double>::infinity();  // bytes per second

  friend bool operator==(const Link&, const Link&) = default;
};

struct Costs {
  // One element a stage, for one micro-batch; an action of span k takes k times as long.
  std::vector<double> forward_s;
  std::vector<double> backward_s;
  std::vector<double> backward_input_s;  // of I; W takes what is left. Or empty: half each
  std::vector<double> recompute_s;       // or empty: as long as the forward

  Link link;                          // of every channel that is not in `links`
  std::map<ChannelEnds, Link> links;  // by worker
  std::vector<double>
      boundary_bytes;  // activation and gradient between stages s and s + 1; or empty

  // How long the sum takes once its last member has begun, alone on its members' links; or empty.
  // A worker takes part in so many at a time, the others wait (simulate.cc): one, where they share
  // its link; more, where a thread for each is what limits them.
  std::vector<double> reduce_s;
  int reduces_at_once = 1;
  double step_s = 0;                 // of each of the optimizer's steps
  std::vector<double> stage_step_s;  // and of each stage that it steps; or empty

  // Every stage alike, nothing else costs.
  static Costs uniform(int stages, double forward_s, double backward_s);

  [[nodiscard]] double compute(const Action& action) const;
  [[nodiscard]] double message_bytes(const Action& send) const;
  [[nodiscard]] const Link& link_of(const ChannelEnds& ends) const;
  [[nodiscard]] double reduce(int stage) const;
  // A step (Action::stage: of one, or kAllStages) on a worker that holds these stages.
  [[nodiscard]] double step(int stage, std::span<const int> held) const;
  [[nodiscard]] double input_part(std::size_t stage) const;  // of the backward
};

}  // namespace chimera
