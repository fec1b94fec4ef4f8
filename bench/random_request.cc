#include "bench/random_request.h"

#include <algorithm>
#include <limits>
#include <string>

#include "chimera/base/random.h"
#include "chimera/base/text.h"

namespace chimera {
namespace {

// Numbers of one machine, drawn one after the other.
class Draw {
 public:
  Draw(std::uint64_t seed, int number) : stream_(seed, static_cast<std::uint32_t>(number), 12) {}

  double between(double low, double high) { return low + (high - low) * stream_.uniform(next_++); }
  template <class Value>
  Value of(const std::vector<Value>& values) {
    const auto place = static_cast<std::size_t>(between(0, static_cast<double>(values.size())));
    return values[std::min(place, values.size() - 1)];
  }

 private:
  RandomStream stream_;
  std::uint64_t next_ = 0;
};

LayerKind random_kind(const std::string& name, double forward_s, double bytes, Draw& draw) {
  LayerKind kind;
  kind.name = name;
  kind.parameters = static_cast<std::int64_t>(draw.between(1e6, 4e6));
  kind.weight_bytes = kind.gradient_bytes = 4.0 * static_cast<double>(kind.parameters);
  kind.optimizer_bytes = 2 * kind.weight_bytes;
  kind.step_s = 0.3e-9 * static_cast<double>(kind.parameters);
  const double fixed = draw.between(0, 0.5), ratio = draw.between(1.6, 2.2);
  for (const int sequences : {1, 2, 4}) {
    const double seconds = forward_s * (fixed + (1 - fixed) * sequences);
    LayerPoint point;
    point.sequences = sequences;
    point.forward_s = point.recompute_s = seconds;
    point.backward_s = ratio * seconds;
    point.backward_input_s = seconds;
    point.stash_bytes = bytes * sequences;
    point.output_bytes = bytes * sequences / 16;
    point.forward_work_bytes = point.recompute_work_bytes = bytes * sequences / 8;
    point.kept_forward_work_bytes = point.backward_work_bytes = bytes * sequences / 4;
    kind.points.push_back(point);
  }
  return kind;
}

Profile random_profile(int blocks, Draw& draw) {
  Profile profile;
  profile.device = profile.source = "random";
  const double block_s = draw.between(5e-3, 20e-3), bytes = draw.between(20e6, 100e6);
  profile.kinds = {random_kind("embedding", block_s * draw.between(0, 0.5), bytes / 4, draw),
                   random_kind("block", block_s, bytes, draw),
                   random_kind("head", block_s * draw.between(0, 3), bytes / 2, draw)};
  profile.first = {"embedding"};
  profile.blocks.assign(static_cast<std::size_t>(blocks), "block");
  profile.last = {"head"};
  return profile;
}

Link random_link(Draw& draw) { return {draw.between(1e-6, 5e-4), draw.between(0.5e9, 10e9)}; }

Link faster(const Link& link, double times) {
  return {link.latency_s / times, link.bandwidth * times};
}

Machine random_machine(int ranks, bool two_nodes, Draw& draw) {
  Machine machine;
  machine.nodes = two_nodes ? 2 : 1;
  machine.devices_per_node = ranks / machine.nodes;
  machine.within = machine.between = {random_link(draw), random_link(draw)};
  if (!two_nodes) return machine;
  constexpr double kLeast = 3, kMost = 20;  // times
  machine.within = {faster(machine.between.p2p, draw.between(kLeast, kMost)),
                    faster(machine.between.reduce, draw.between(kLeast, kMost))};
  return machine;
}

// How many bytes a unit of the machine's memory must be for a plan to fit.
double needed_unit(const Plan& plan, const PlanRequest& request) {
  const Program program = candidate_program(plan.candidate, request.reduce, 1);
  const std::vector<double> units =
      planned_limits(request.machine, candidate_layout(plan.candidate, program.source.placement));
  double needed = 0;
  for (std::size_t worker = 0; worker < units.size(); ++worker) {
    needed = std::max(needed, plan.prediction.peak_bytes[worker] / units[worker]);
  }
  return needed;
}

// So much that a part of all plans fits as it is.
void add_memory(bool differs, PlanRequest& request, Draw& draw) {
  std::vector<double> units = {1};
  if (differs) {
    units.clear();
    for (int rank = 0; rank < request.ranks; ++rank) units.push_back(draw.between(0.7, 1.3));
  }
  const Plans plans = plan(request);
  request.machine.memory_bytes = units;
  std::vector<double> needed;
  for (const Plan& plan : plans.best) needed.push_back(needed_unit(plan, request));
  std::ranges::sort(needed);
  const double part = draw.between(0, 1);
  const double rank = part * part * static_cast<double>(needed.size() - 1);  // scarce more often
  constexpr double kRounding = 1.0001;
  const double unit = kRounding * needed[static_cast<std::size_t>(rank)];
  for (double& bytes : request.machine.memory_bytes) bytes *= unit;
}

}  // namespace

bool has_differing_memory(const Machine& machine) { return machine.memory_bytes.size() > 1; }

PlanRequest random_request(std::uint64_t seed, int number) {
  Draw draw(seed, number);
  PlanRequest request;
  request.ranks = draw.of<int>({2, 4, 4, 6, 8, 8});
  request.profile = random_profile(request.ranks + static_cast<int>(draw.between(0, 7)), draw);
  request.batch = request.ranks * draw.of<int>({2, 4, 8});
  request.machine = random_machine(request.ranks, number / 2 % 2 == 1, draw);
  request.machine.name = cat("random machine ", number, " of seed ", seed);
  request.barrier = draw.between(0, 1) < 0.5;
  if (request.barrier) request.no_asynchronous = "steps have a barrier";
  request.most = std::numeric_limits<int>::max();
  add_memory(number % 2 == 1, request, draw);
  return request;
}

}  // namespace chimera
