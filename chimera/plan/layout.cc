#include "chimera/plan/layout.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "chimera/base/check.h"
#include "chimera/base/index.h"

namespace chimera {
namespace {

// A kind, and what it costs with the layout's micro-batches.
struct SizedKind {
  const LayerKind* kind = nullptr;
  LayerPoint point;
};

// A stage's layers, in order, and how many of them are recomputed.
struct StageLayers {
  std::vector<const SizedKind*> layers;
  std::size_t recomputed = 0;
};

class Stages {
 public:
  Stages(const Profile& profile, const Layout& layout) : profile_(profile), layout_(layout) {
    CHECK(layout.recomputed.size() == layout.split.size());
    for (const LayerKind& kind : profile.kinds)
      kinds_.push_back({&kind, kind.at(layout.sequences)});
    std::size_t block = 0;
    for (int stage = 0; stage < count(); ++stage) {
      StageLayers layers;
      std::vector<const SizedKind*>& all = layers.layers;
      const auto blocks = as_index(layout.split[as_index(stage)]);
      CHECK(block + blocks <= profile.blocks.size());
      if (stage == 0) add(profile.first, all);
      const std::size_t before = all.size();
      add(std::span(profile.blocks).subspan(block, blocks), all);
      block += blocks;
      if (stage + 1 == count()) add(profile.last, all);
      const auto recomputed = as_index(layout.recomputed[as_index(stage)]);
      if (recomputed == blocks && recomputed > 0) {
        layers.recomputed = all.size();  // those beside the blocks, too
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
    return stages_[as_index(stage)].layers.back()->point.output_bytes;
  }

  [[nodiscard]] double weight_bytes(int stage) const {
    double bytes = 0;
    for (const SizedKind* layer : stages_[as_index(stage)].layers) {
      bytes += layer->kind->weight_bytes;
    }
    return bytes;
  }

  // Those that every stage has.
  [[nodiscard]] std::vector<const SizedKind*> each() const {
    std::vector<const SizedKind*> layers;
    add(profile_.each, layers);
    return layers;
  }

 private:
  // Most have the name of the one before.
  void add(std::span<const std::string> names, std::vector<const SizedKind*>& layers) const {
    const SizedKind* last = nullptr;
    for (const std::string& name : names) {
      if (last == nullptr || last->kind->name != name) {
        last = &kinds_[static_cast<std::size_t>(&profile_.kind(name) - profile_.kinds.data())];
      }
      layers.push_back(last);
    }
  }

  const Profile& profile_;
  const Layout& layout_;
  std::vector<SizedKind> kinds_;  // as in the profile
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

void add_compute(const Machine& machine, const StageLayers& stage,
                 const std::vector<const SizedKind*>& each, Costs& costs) {
  double forward = 0, backward = 0, input = 0, recompute = 0, step = 0;
  const auto add = [&](const SizedKind& layer, bool recomputed) {
    const LayerPoint& point = layer.point;
    forward += forward_s(point, recomputed);
    backward += point.backward_s;
    input += point.backward_input_s;
    if (recomputed) recompute += point.recompute_s;
    step += layer.kind->step_s;
  };
  for (std::size_t i = 0; i < stage.layers.size(); ++i) {
    add(*stage.layers[i], i < stage.recomputed);
  }
  for (const SizedKind* layer : each) add(*layer, stage.recomputed > 0);
  const auto timed = [&](double seconds) {
    return machine.time_scale * seconds + machine.action_s;
  };
  costs.forward_s.push_back(timed(forward));
  costs.backward_s.push_back(timed(backward));
  costs.backward_input_s.push_back(timed(input));
  costs.recompute_s.push_back(timed(recompute));
  costs.stage_step_s.push_back(machine.time_scale * step);
}

double gradient_of(const StageLayers& stage) {
  double bytes = 0;
  for (const SizedKind* layer : stage.layers) bytes += layer->kind->gradient_bytes;
  return bytes;
}

// The bytes of one stage from those of its layers: what is held as one layer after the other runs,
// and the most on the way. As shape/sizes.cc has it for whole stages; model_profile_test.cc
// compares the two.
class StageBytes {
 public:
  // `tokens`: of a micro-batch; its targets are as large. A forward is given both.
  StageBytes(const StageLayers& stage, double input, double tokens, bool first, bool last)
      : layers_(stage.layers),
        cut_(stage.recomputed),
        input_(input),
        tokens_(tokens),
        first_(first),
        last_(last) {}

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
    double bytes = input_;
    for (std::size_t i = cut; i < layers_.size(); ++i) {
      bytes += point(i).stash_bytes + (i > 0 ? point(i - 1).output_bytes : 0);
    }
    if (first_ && cut == 0) bytes += tokens_;
    if (last_ && cut < layers_.size()) bytes += tokens_;
    return bytes;
  }

  [[nodiscard]] double forward_peak(std::size_t cut) const {
    double held = 2 * tokens_ + input_, peak = held;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const LayerPoint& now = point(i);
      const bool again = i < cut;
      const double work = again ? now.kept_forward_work_bytes : now.forward_work_bytes;
      const double left = (again ? 0 : now.stash_bytes) + now.output_bytes;
      peak = std::max(peak, held + left + work);
      held += left;
      // What no graph holds ends when the layer has used it.
      if (again && i > 0) held -= point(i - 1).output_bytes;
    }
    return peak;
  }

  [[nodiscard]] double recompute_peak(double kept) const {
    double held = kept + 2 * tokens_, peak = held;
    for (std::size_t i = 0; i < cut_; ++i) {
      const double left = point(i).stash_bytes + point(i).output_bytes;
      peak = std::max(peak, held + left + point(i).recompute_work_bytes);
      held += left;
    }
    return peak;
  }

  // The gradient of a layer's output turns into that of its input; stash and input end with it. The
  // gradient that came as a message and the stage's input stay to the end.
  [[nodiscard]] double backward_peak(double stash) const {
    double held = stash + layers_.back()->point.output_bytes, peak = held;
    for (std::size_t i = layers_.size(); i-- > 0;) {
      const LayerPoint& now = point(i);
      const bool at_end = i + 1 == layers_.size();
      const double work = at_end && !last_
                              ? std::max(now.backward_work_bytes, now.end_backward_work_bytes)
                              : now.backward_work_bytes;
      peak = std::max(peak, held + work);
      held -= now.stash_bytes;
      if (!at_end) held -= now.output_bytes;
      if (at_end && last_) held -= tokens_;
    }
    return peak;
  }

  [[nodiscard]] const LayerPoint& point(std::size_t layer) const { return layers_[layer]->point; }

  const std::vector<const SizedKind*>& layers_;
  std::size_t cut_;
  double input_, tokens_;
  bool first_, last_;
};

void add_worker(const Profile& profile, const Stages& stages, const Placement& placement,
                int worker, MemoryModel& memory) {
  double weights = 0, gradients = 0, optimizer = 0, step = 0, parameters = 0;
  const std::vector<int>& held = placement.stages_of(worker);
  for (const int stage : held) {
    // Of a stage that several hold, one worker takes the gradient norm.
    const bool is_first = placement.holders(stage).front() == worker;
    for (const SizedKind* layer : stages[stage].layers) {
      const LayerKind& kind = *layer->kind;
      weights += kind.weight_bytes;
      gradients += kind.gradient_bytes;
      optimizer += kind.optimizer_bytes;
      if (is_first) step = std::max(step, kind.step_bytes);
      parameters += static_cast<double>(kind.parameters);
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
  check_devices(machine, layout.width * layout.placement.workers());
  const Stages stages(profile, layout);
  const std::vector<const SizedKind*> each = stages.each();
  Costs costs;
  for (int stage = 0; stage < stages.count(); ++stage) {
    add_compute(machine, stages[stage], each, costs);
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
    const StageBytes bytes(stages[stage], input, tokens, stage == 0, is_last);
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
  check_devices(machine, layout.width * workers);
  std::vector<double> limits(as_index(workers), std::numeric_limits<double>::infinity());
  for (int rank = 0; rank < layout.width * workers; ++rank) {
    double& limit = limits[as_index(rank % workers)];
    limit = std::min(limit, machine.limit_bytes(rank));
  }
  return limits;
}

}  // namespace chimera
