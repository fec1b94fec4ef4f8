// A stage that waits a set time instead of computing, and sends messages of a set size: many
// workers run on few cores, so that the runtime's own cost can be measured.
#pragma once

#include <cstddef>
#include <memory>
#include <set>
#include <vector>

#include "chimera/runtime/stage.h"

namespace chimera {

struct WaitingStageSpec {
  int stage = 0, stages = 1;
  double forward_s = 0, backward_s = 0;  // a recompute takes as long as a forward
  std::int64_t message_bytes = 0;        // of activations and gradients; their content is undefined
  std::size_t gradient_elements = 0;     // fp32, reduced as a real stage's gradients are
};

class WaitingStage final : public Stage {
 public:
  explicit WaitingStage(const WaitingStageSpec& spec);

  Message forward(int micro, Message input, ForwardUse use) override;
  void recompute(int micro, int age) override;
  Message backward(int micro, Message gradient) override;
  void stash_weights() override {}  // it has none
  void free_weights(int) override {}
  [[nodiscard]] int in_flight() const override { return static_cast<int>(stash_.size()); }
  [[nodiscard]] std::vector<Gradient> gradients() override;

 private:
  [[nodiscard]] Message message() const;

  WaitingStageSpec spec_;
  std::set<int> stash_;  // micro-batches
  std::vector<float> gradient_;
};

// Returns when `seconds` have passed, within a few microseconds: sleeps, then yields the rest. With
// more threads than cores the others run in the meantime.
void wait_precisely(double seconds);

}  // namespace chimera
