// Stage: one stage of the model on one worker, for whichever pipes bring it micro-batches. The seam
// between the runtime, which knows no tensors, and what computes: libtorch (model/), or a stage
// that waits a set time (waiting_stage.h).
//
// Used by its worker's thread alone. What it throws ends the step on every rank, with the worker,
// stage, micro-batch and action in front of its text.
#pragma once

#include <vector>

#include "chimera/transport/message.h"

namespace chimera {

// A dense part of a worker's gradient, and the stages that add to it: its own one, or, for a
// parameter that several stages share (a tied head), all of those.
struct Gradient {
  Buffer buffer;
  std::vector<int> stages;  // ascending
};

class Stage {
 public:
  virtual ~Stage() = default;

  // The stage's output for one micro-batch; stashes what backward needs. The first stage gets no
  // message, the last one returns none: it keeps the loss.
  virtual Message forward(int micro, Message input) = 0;

  // The gradient of the stage's input, given that of its output (none for the last stage); adds to
  // gradients() and frees the stash. The first stage returns none.
  virtual Message backward(int micro, Message gradient) = 0;

  // Micro-batches whose stash is held.
  [[nodiscard]] virtual int in_flight() const = 0;

  // Where the gradients lie; the same buffers for the life of the stage. Stages of one worker that
  // share a parameter name the same buffer.
  [[nodiscard]] virtual std::vector<Gradient> gradients() = 0;
};

}  // namespace chimera
