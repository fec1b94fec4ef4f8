#include "chimera/runtime/emulated_rank.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "chimera/base/clock.h"
#include "chimera/base/index.h"
#include "chimera/base/rank_clock.h"
#include "chimera/runtime/tags.h"
#include "chimera/runtime/waiting_stage.h"
#include "chimera/runtime/worker.h"

namespace chimera {
namespace {

class EmulatedRank {
 public:
  EmulatedRank(EmulationShared& shared, const Rank& rank)
      : shared_(shared),
        program_(shared.setting.program),
        real_(rank.transport),
        seat_{shared.setting.groups, real_.rank() / program_.source.workers(),
              real_.rank() % program_.source.workers()},
        held_(program_.source.placement.stages_of(seat_.worker)),
        meter_(shared.meters[as_index(real_.rank())]),
        emulated_(shared.links.transport(real_, clock_)),
        worker_(program_, seat_, make_stages(), *emulated_,
                {.on_action = rank.on_action,
                 .step = [this](const Action& action) { step(action); },
                 .sums_alone = true}) {}

  MeasuredRank run() {
    MeasuredRank measured;
    for (int i = 0; i < repetitions(shared_.setting); ++i) {
      if (i == 0 || shared_.setting.barrier) begin_together();
      measured.rows.push_back(worker_.run_row());
      measured.lag_s = std::max(measured.lag_s, clock_.lag_s());
      measured.reductions.push_back(worker_.take_reductions());
    }
    return measured;
  }

 private:
  Stages make_stages() {
    Stages stages;
    for (const int stage : held_) stages[stage] = std::make_unique<WaitingStage>(spec_of(stage));
    return stages;
  }

  [[nodiscard]] WaitingStageSpec spec_of(int stage) {
    const Costs& costs = shared_.setting.costs;
    const auto& memory = shared_.setting.memory.stages;
    const auto time = [&](Op op) {
      return shared_.stretch * costs.compute({.op = op, .stage = static_cast<std::int16_t>(stage)});
    };
    return {.stage = stage,
            .stages = program_.source.stages(),
            .forward_s = time(Op::kForward),
            .backward_s = time(Op::kBackward),
            .recompute_s = time(Op::kRecompute),
            .message_bytes = 8,
            .gradient_elements = 1,
            .clock = &clock_,
            .meter = &meter_,
            .memory = memory[as_index(stage)],
            .input_bytes = stage > 0 ? memory[as_index(stage - 1)].activation : 0};
  }

  void step(const Action& action) {
    const EmulationSetting& setting = shared_.setting;
    const HeldBytes held(&meter_, setting.memory.step_work[as_index(seat_.worker)]);
    clock_.wait_until(clock_.now_s() + shared_.stretch * setting.costs.step(action.stage, held_));
  }

  // All wait for a time that is far enough ahead for all to hear of it.
  void begin_together() {
    std::vector<double> times(as_index(real_.size()));
    times[as_index(real_.rank())] = now_s();
    const Buffer buffer{DType::kFloat64, reinterpret_cast<std::byte*>(times.data()), times.size()};
    finish(*real_.all_reduce_sum(buffer, all_ranks(real_), kStepTag));
    constexpr double kHeardByAll = 2e-3, kByEachRank = 50e-6;
    clock_.wait_until(*std::max_element(times.begin(), times.end()) + kHeardByAll +
                      kByEachRank * real_.size());
  }

  EmulationShared& shared_;
  const Program& program_;
  Transport& real_;
  Seat seat_;
  std::vector<int> held_;  // stages
  ByteMeter& meter_;
  PacedClock clock_;
  std::unique_ptr<Transport> emulated_;
  Worker worker_;
};

}  // namespace

EmulatedCosts stretched_costs(const EmulationSetting& setting, double stretch) {
  const int workers = setting.program.source.workers();
  const Costs& costs = setting.costs;
  return {.message =
              [&costs, workers, stretch](int from, int to, Tag tag, std::size_t) {
                const Link& link = costs.link_of({from % workers, to % workers});
                const double bytes = costs.boundary_bytes.empty()
                                         ? 0
                                         : costs.boundary_bytes[as_index(boundary_of(tag))];
                return EmulatedCosts::OfMessage{stretch * bytes / link.bandwidth,
                                                stretch * link.latency_s};
              },
          .sum = [&costs, stretch](std::span<const int>, Tag tag,
                                   std::size_t) { return stretch * costs.reduce(stage_of(tag)); },
          .sums_at_once = costs.reduces_at_once};
}

int repetitions(const EmulationSetting& setting) {
  return has_steps(setting.program.source) ? 1 : setting.steps;
}

MeasuredRank run_emulated_rank(EmulationShared& shared, const Rank& rank) {
  return EmulatedRank(shared, rank).run();
}

}  // namespace chimera
