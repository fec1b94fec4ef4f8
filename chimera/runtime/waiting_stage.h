// A stage that waits a set time instead of computing, and sends messages of a set size: many
// workers run on few cores, so that the runtime's own cost can be measured, or a whole cluster be
// emulated (emulate.h). It may also claim bytes, as a real stage would hold them.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "chimera/base/rank_clock.h"
#include "chimera/runtime/byte_meter.h"
#include "chimera/runtime/stage.h"
#include "chimera/simulate/memory.h"

namespace chimera {

struct WaitingStageSpec {
  int stage = 0, stages = 1;
  double forward_s = 0, backward_s = 0;
  std::optional<double> recompute_s = {};  // as long as a forward unless given
  std::int64_t message_bytes = 0;     // of activations and gradients; their content is undefined
  std::size_t gradient_elements = 0;  // fp32, reduced as a real stage's gradients are
  RankClock* clock = nullptr;         // the rank's, which outlives the stage; null: the machine's

  // Claims these bytes of the worker's meter, which outlives the stage and its messages; null: of
  // none. A message is its maker's until the stage that takes it begins (simulate/memory.h).
  ByteMeter* meter = nullptr;
  StageMemory memory = {};
  double input_bytes = 0;  // of its input, and so of the gradient that it returns
};

class WaitingStage final : public Stage {
 public:
  explicit WaitingStage(const WaitingStageSpec& spec);

  Message forward(int micro, Message input, ForwardUse use) override;
  void recompute(int micro, int age) override;
  Message backward(int micro, Message gradient) override;
  void stash_weights() override { claim(spec_.memory.weights); }
  void free_weights(int) override { claim(-spec_.memory.weights); }
  [[nodiscard]] int in_flight() const override { return static_cast<int>(stash_.size()); }
  [[nodiscard]] std::vector<Gradient> gradients() override;

 private:
  // Waits, with so many bytes more meanwhile.
  void work(double seconds, double bytes) const;
  void claim(double bytes) const;
  [[nodiscard]] Message message(double claimed_bytes) const;

  WaitingStageSpec spec_;
  std::set<int> stash_;  // micro-batches
  std::vector<float> gradient_;
};

// Returns when `seconds` have passed, within a few microseconds: sleeps, then spins the rest. With
// more threads than cores the others run in the meantime.
void wait_precisely(double seconds);

}  // namespace chimera
