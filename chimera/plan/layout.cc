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
      if (recomputed == blocks && recomputed > 0) {
        layers.recomputed = layers.kinds.size();  // those beside the blocks, too
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

  [[nodiscard]] double weight_bytes(int stage) const {
    double bytes = 0;
    for (const LayerKind* kind : stages_[as_index(stage)].kinds) bytes += kind->weight_bytes;
    return bytes;
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
  const std::vector<int>& holders = layout.placement.holders(stage);
  const int first = machine.node(holders.front());
  const int last = machine.node((layout.width - 1) * layout.placement.workers() + holders.back());
  return first == last ? machine.within : machine.between;
}

double exchange_s(AllReduce by, const Link& hop, int ranks, double bytes) {
  switch (by) {
    case AllReduce::kRing:
      return ring_s(hop, ranks, bytes);
    case AllReduce::kRecursiveDoubling:
      return recursive_doubling_s(hop, ranks, bytes);
    case AllReduce::kRabenseifner:
      break;
  }
  return rabenseifner_s(hop, ranks, bytes);
}

double reduce_s(const Machine& machine, const Layout& layout, int stage, double bytes) {
  const int ranks = layout.width * static_cast<int>(layout.placement.holders(stage).size());
  if (ranks < 2) return 0;
  const Link& hop = links_of_group(machine, layout, stage).reduce;
  return machine.reduce_start_s + exchange_s(machine.reduce_by, hop, ranks, bytes);
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

double forward_s(const LayerPoint& point, bool recomputed) {
  return recomputed && point.kept_forward_s > 0 ? point.kept_forward_s : point.forward_s;
}

void add_compute(const Profile& profile, const Machine& machine, const StageLayers& layers,
                 int sequences, Costs& costs) {
  double forward = 0, backward = 0, input = 0, recompute = 0, step = 0;
  const auto add = [&](const LayerKind& kind, bool recomputed) {
    const LayerPoint point = kind.at(sequences);
    forward += forward_s(point, recomputed);
    backward += point.backward_s;
    input += point.backward_input_s;
    if (recomputed) recompute += point.recompute_s;
    step += kind.step_s;
  };
  for (std::size_t i = 0; i < layers.kinds.size(); ++i) {
    add(*layers.kinds[i], i < layers.recomputed);
  }
  for (const std::string& name : profile.each) add(profile.kind(name), layers.recomputed > 0);
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

// The bytes of one stage from those of its layers: what is held as one layer after the other runs,
// and the most on the way. As shape/sizes.cc has it for whole stages; model_profile_test.cc
// compares the two.
class StageBytes {
 public:
  // `tokens`: of a micro-batch; its targets are as large. A forward is given both.
  StageBytes(const StageLayers& layers, int sequences, double input, double tokens, bool first,
             bool last)
      : cut_(layers.recomputed), tokens_(tokens), first_(first), last_(last) {
    for (const LayerKind* kind : layers.kinds) {
      inputs_.push_back(points_.empty() ? input : points_.back().output_bytes);
      points_.push_back(kind->at(sequences));
    }
  }

  [[nodiscard]] StageMemory memory() const {
    const double stash = held_after(0), kept = held_after(cut_);
    return {.stash = stash,
            .kept = kept,
            .forward_work = forward_peak(0) - stash,
            .kept_forward_work = forward_peak(cut_) - kept,
            .recompute_work = cut_ == 0 ? 0 : recompute_peak(kept) - stash,
            .backward_work = backward_peak(stash) - stash};
  }

 private:
  // By a forward that keeps of the layers before `cut` nothing but the stage's input.
  [[nodiscard]] double held_after(std::size_t cut) const {
    double bytes = inputs_.front();
    for (std::size_t i = cut; i < points_.size(); ++i) {
      bytes += points_[i].stash_bytes + (i > 0 ? inputs_[i] : 0);
    }
    if (first_ && cut == 0) bytes += tokens_;
    if (last_ && cut < points_.size()) bytes += tokens_;
    return bytes;
  }

  [[nodiscard]] double forward_peak(std::size_t cut) const {
    double held = 2 * tokens_ + inputs_.front(), peak = held;
    for (std::size_t i = 0; i < points_.size(); ++i) {
      const LayerPoint& point = points_[i];
      const bool again = i < cut;
      const double work = again ? point.kept_forward_work_bytes : point.forward_work_bytes;
      const double left = (again ? 0 : point.stash_bytes) + point.output_bytes;
      peak = std::max(peak, held + left + work);
      held += left;
      // What no graph holds ends when the layer has used it.
      if (again && i > 0) held -= inputs_[i];
    }
    return peak;
  }

  [[nodiscard]] double recompute_peak(double kept) const {
    double held = kept + 2 * tokens_, peak = held;
    for (std::size_t i = 0; i < cut_; ++i) {
      const double left = points_[i].stash_bytes + points_[i].output_bytes;
      peak = std::max(peak, held + left + points_[i].recompute_work_bytes);
      held += left;
    }
    return peak;
  }

  // The gradient of a layer's output turns into that of its input; stash and input end with it. The
  // gradient that came as a message and the stage's input stay to the end.
  [[nodiscard]] double backward_peak(double stash) const {
    double held = stash + points_.back().output_bytes, peak = held;
    for (std::size_t i = points_.size(); i-- > 0;) {
      const LayerPoint& point = points_[i];
      const bool at_end = i + 1 == points_.size();
      const double work = at_end && !last_
                              ? std::max(point.backward_work_bytes, point.end_backward_work_bytes)
                              : point.backward_work_bytes;
      peak = std::max(peak, held + work);
      held -= point.stash_bytes;
      if (!at_end) held -= point.output_bytes;
      if (at_end && last_) held -= tokens_;
    }
    return peak;
  }

  std::vector<LayerPoint> points_;
  std::vector<double> inputs_;  // of each layer
  std::size_t cut_;
  double tokens_;
  bool first_, last_;
};

void add_worker(const Profile& profile, const Stages& stages, const Placement& placement,
                int worker, MemoryModel& memory) {
  double weights = 0, gradients = 0, optimizer = 0, step = 0, parameters = 0;
  const std::vector<int>& held = placement.stages_of(worker);
  for (const int stage : held) {
    // Of a stage that several hold, one worker takes the gradient norm.
    const bool is_first = placement.holders(stage).front() == worker;
    for (const LayerKind* kind : stages[stage].kinds) {
      weights += kind->weight_bytes;
      gradients += kind->gradient_bytes;
      optimizer += kind->optimizer_bytes;
      if (is_first) step = std::max(step, kind->step_bytes);
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

double recursive_doubling_s(const Link& hop, int ranks, double bytes) {
  return std::log2(ranks) * (hop.latency_s + bytes / hop.bandwidth);
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
    add_compute(profile, machine, stages[stage], layout.sequences, costs);
    costs.reduce_s.push_back(reduce_s(machine, layout, stage, gradient_of(stages[stage])));
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
  const double tokens = profile.tokens_bytes * layout.sequences;
  for (int stage = 0; stage < stages.count(); ++stage) {
    const bool is_last = stage + 1 == stages.count();
    const double input = stage == 0 ? 0 : stages.output_bytes(stage - 1);
    const StageBytes bytes(stages[stage], layout.sequences, input, tokens, stage == 0, is_last);
    memory.stages.push_back(bytes.memory());
    memory.stages.back().weights = stages.weight_bytes(stage);
    memory.stages.back().activation = is_last ? 0 : stages.output_bytes(stage);
  }
  for (int worker = 0; worker < layout.placement.workers(); ++worker) {
    add_worker(profile, stages, layout.placement, worker, memory);
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
