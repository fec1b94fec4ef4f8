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

// How a forward is to be done.
struct ForwardUse {
  int age = 0;              // of the weights: as many steps ago they were the newest
  bool recomputed = false;  // stash no more than recompute needs, which comes before the backward
};

class Stage {
 public:
  virtual ~Stage() = default;

  // The stage's output for one micro-batch; stashes what backward needs. The first stage gets no
  // message, the last one returns none: it keeps the loss.
  virtual Message forward(int micro, Message input, ForwardUse use) = 0;

  // Brings back what a forward with `recomputed` did not stash; to the last bit the same.
  virtual void recompute(int micro, int age) = 0;

  // The gradient of the stage's input, given that of its output (none for the last stage); adds to
  // gradients() and frees the stash. The first stage returns none. Reads the weights that the
  // forward read.
  virtual Message backward(int micro, Message gradient) = 0;

  // Keeps the newest weights as they are: the next step makes new ones beside them.
  virtual void stash_weights() = 0;
  // Drops the kept weights of this age.
  virtual void free_weights(int age) = 0;

  // Micro-batches whose activations are held: not those that are to be recomputed, before they are.
  [[nodiscard]] virtual int in_flight() const = 0;

  // Where the gradients lie; the same buffers for the life of the stage. Stages of one worker that
  // share a parameter name the same buffer.
  [[nodiscard]] virtual std::vector<Gradient> gradients() = 0;
};

}  // namespace chimera
