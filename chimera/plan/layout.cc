#include "chimera/plan/layout.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "chimera/base/check.h"
#include "chimera/base/index.h"

namespace chimera {
namespace {

// The kinds of a stage's layers, in order, and how many of them are recomputed.
struct StageLayers {
  std::vector<const LayerKind*> kinds;
  std::size_t recomputed = 0;
  bool whole = false;  // all blocks recomputed: so are the layers beside them
};

class Stages {
 public:
  Stages(const Profile& profile, const Layout& layout) : profile_(profile), layout_(layout) {
    CHECK(layout.recomputed.size() == layout.split.size());
    std::size_t block = 0;
    for (int stage = 0; stage < count(); ++stage) {
      StageLayers layers;
      const auto blocks = as_index(layout.split[as_index(stage)]);
      CHECK(block + blocks <= profile.blocks.size());
      if (stage == 0) add(profile.first, layers);
      const std::size_t before = layers.kinds.size();
      for (std::size_t i = 0; i < blocks; ++i) {
        layers.kinds.push_back(&profile.kind(profile.blocks[block++]));
      }
      if (stage + 1 == count()) add(profile.last, layers);
      const auto recomputed = as_index(layout.recomputed[as_index(stage)]);
      layers.whole = recomputed == blocks && recomputed > 0;
      if (layers.whole) {
        layers.recomputed = layers.kinds.size();
      } else if (recomputed > 0) {
        layers.recomputed = before + recomputed;  // from the stage's beginning
      }
      stages_.push_back(std::move(layers));
    }
    CHECK(block == profile.blocks.size());
  }

  [[nodiscard]] int count() const { return static_cast<int>(layout_.split.size()); }
  [[nodiscard]] const StageLayers& operator[](int stage) const { return stages_[as_index(stage)]; }

  // The message to the next stage.
  [[nodiscard]] double output_bytes(int stage) const {
    return stages_[as_index(stage)].kinds.back()->at(layout_.sequences).output_bytes;
  }

 private:
  void add(const std::vector<std::string>& names, StageLayers& layers) const {
    for (const std::string& name : names) layers.kinds.push_back(&profile_.kind(name));
  }

  const Profile& profile_;
  const Layout& layout_;
  std::vector<StageLayers> stages_;
};

// Of all ranks that hold the stage, in all groups: on one node or not.
const Machine::Links& links_of_group(const Machine& machine, const Layout& layout, int stage) {
  const std::vector<int> holders = layout.placement.holders(stage);
  const int first = machine.node(holders.front());
  const int last = machine.node((layout.width - 1) * layout.placement.workers() + holders.back());
  return first == last ? machine.within : machine.between;
}

// A channel is as slow as it is in the group where it is slowest.
bool crosses_nodes(const Machine& machine, const Layout& layout, const ChannelEnds& ends) {
  for (int group = 0; group < layout.width; ++group) {
    const int base = group * layout.placement.workers();
    if (machine.node(base + ends.from) != machine.node(base + ends.to)) return true;
  }
  return false;
}

void add_links(const Machine& machine, const Layout& layout, Costs& costs) {
  costs.link = machine.between.p2p;
  if (machine.within.p2p == machine.between.p2p) return;
  for (int pipe = 0; pipe < layout.placement.pipes(); ++pipe) {
    for (int stage = 0; stage + 1 < layout.placement.stages(); ++stage) {
      const int a = layout.placement.worker(pipe, stage);
      const int b = layout.placement.worker(pipe, stage + 1);
      if (a == b || crosses_nodes(machine, layout, {a, b})) continue;
      costs.links[{a, b}] = costs.links[{b, a}] = machine.within.p2p;
    }
  }
}

void add_compute(const Machine& machine, const StageLayers& layers, int sequences, Costs& costs) {
  double forward = 0, backward = 0, input = 0, recompute = 0, step = 0;
  for (std::size_t i = 0; i < layers.kinds.size(); ++i) {
    const LayerPoint point = layers.kinds[i]->at(sequences);
    forward += point.forward_s;
    backward += point.backward_s;
    input += point.backward_input_s;
    if (i < layers.recomputed) recompute += point.recompute_s;
    step += layers.kinds[i]->step_s;
  }
  const auto timed = [&](double seconds) {
    return machine.time_scale * seconds + machine.action_s;
  };
  costs.forward_s.push_back(timed(forward));
  costs.backward_s.push_back(timed(backward));
  costs.backward_input_s.push_back(timed(input));
  costs.recompute_s.push_back(timed(recompute));
  costs.stage_step_s.push_back(machine.time_scale * step);
}

double gradient_of(const StageLayers& layers) {
  double bytes = 0;
  for (const LayerKind* kind : layers.kinds) bytes += kind->gradient_bytes;
  return bytes;
}

StageMemory stage_memory(const StageLayers& layers, int sequences, double input_bytes) {
  StageMemory memory;
  memory.stash = memory.kept = input_bytes;
  for (std::size_t i = 0; i < layers.kinds.size(); ++i) {
    const LayerPoint point = layers.kinds[i]->at(sequences);
    const bool again = i < layers.recomputed;
    memory.weights += layers.kinds[i]->weight_bytes;
    memory.stash += point.stash_bytes;
    // Where recompute ends within the stage, what the next layer reads is kept instead.
    if (!again) memory.kept += point.stash_bytes;
    if (again && i + 1 == layers.recomputed && i + 1 < layers.kinds.size()) {
      memory.kept += point.output_bytes;
    }
    memory.forward_work = std::max(memory.forward_work, point.forward_work_bytes);
    memory.kept_forward_work = std::max(
        memory.kept_forward_work, again ? point.kept_forward_work_bytes : point.forward_work_bytes);
    if (again) memory.recompute_work = std::max(memory.recompute_work, point.recompute_work_bytes);
    memory.backward_work = std::max(memory.backward_work, point.backward_work_bytes);
  }
  memory.kept = std::min(memory.kept, memory.stash);
  return memory;
}

void add_worker(const Profile& profile, const Stages& stages, const std::vector<int>& held,
                MemoryModel& memory) {
  double weights = 0, gradients = 0, optimizer = 0, step = 0, parameters = 0;
  for (const int stage : held) {
    for (const LayerKind* kind : stages[stage].kinds) {
      weights += kind->weight_bytes;
      gradients += kind->gradient_bytes;
      optimizer += kind->optimizer_bytes;
      step = std::max(step, kind->step_bytes);
      parameters += static_cast<double>(kind->parameters);
    }
  }
  const bool both = held.front() == 0 && held.back() + 1 == stages.count();
  const double once =
      both && parameters > 0 ? 1 - static_cast<double>(profile.shared_parameters) / parameters : 1;
  memory.weights.push_back(once * weights);
  memory.gradients.push_back(once * gradients);
  memory.optimizer.push_back(once * optimizer);
  memory.step_work.push_back(step);
}

}  // namespace

double rabenseifner_s(const Link& hop, int ranks, double bytes) {
  if (ranks < 2) return 0;
  const double others = (ranks - 1.0) / ranks;
  return 2 * std::log2(ranks) * hop.latency_s + 2 * others * bytes / hop.bandwidth;
}

double ring_s(const Link& hop, int ranks, double bytes) {
  return 2 * (ranks - 1.0) * (hop.latency_s + bytes / ranks / hop.bandwidth);
}

std::vector<double> gradient_bytes(const Profile& profile, const Layout& layout) {
  const Stages stages(profile, layout);
  std::vector<double> bytes;
  bytes.reserve(static_cast<std::size_t>(stages.count()));
  for (int stage = 0; stage < stages.count(); ++stage) bytes.push_back(gradient_of(stages[stage]));
  return bytes;
}

Costs layout_costs(const Profile& profile, const Machine& machine, const Layout& layout) {
  const Stages stages(profile, layout);
  Costs costs;
  for (int stage = 0; stage < stages.count(); ++stage) {
    add_compute(machine, stages[stage], layout.sequences, costs);
    const int ranks = layout.width * static_cast<int>(layout.placement.holders(stage).size());
    const Link& hop = links_of_group(machine, layout, stage).reduce;
    costs.reduce_s.push_back(
        (machine.ring ? ring_s : rabenseifner_s)(hop, ranks, gradient_of(stages[stage])));
    if (stage + 1 < stages.count()) costs.boundary_bytes.push_back(stages.output_bytes(stage));
  }
  costs.reduces_at_once = machine.reduces_at_once;
  costs.step_s = machine.time_scale * profile.step_s;
  add_links(machine, layout, costs);
  return costs;
}

MemoryModel layout_memory(const Profile& profile, const Layout& layout) {
  const Stages stages(profile, layout);
  MemoryModel memory;
  for (int stage = 0; stage < stages.count(); ++stage) {
    const double input = stage == 0 ? 0 : stages.output_bytes(stage - 1);
    memory.stages.push_back(stage_memory(stages[stage], layout.sequences, input));
    memory.stages.back().activation = stage + 1 < stages.count() ? stages.output_bytes(stage) : 0;
  }
  for (int worker = 0; worker < layout.placement.workers(); ++worker) {
    add_worker(profile, stages, layout.placement.stages_of(worker), memory);
  }
  return memory;
}

std::vector<double> layout_limits(const Machine& machine, const Layout& layout) {
  const int workers = layout.placement.workers();
  std::vector<double> limits(as_index(workers), std::numeric_limits<double>::infinity());
  for (int rank = 0; rank < layout.width * workers; ++rank) {
    double& limit = limits[as_index(rank % workers)];
    limit = std::min(limit, machine.limit_bytes(rank));
  }
  return limits;
}

}  // namespace chimera
