// One stage of a model, computed by libtorch: layers forward, autograd backward.
//
// A forward stashes the stage's input and its graph, and nothing of its output, whose bytes travel
// on in the message; backward frees both. The last stage's output is its loss: the sum over tokens
// of the cross entropy, times a scale that the trainer sets to one over the tokens of the whole
// mini-batch. So gradients added up over micro-batches and replicas are those of the mean loss per
// token, however the mini-batch is cut. A micro-batch may be empty.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "chimera/model/layer.h"
#include "chimera/model/spec.h"
#include "chimera/model/store.h"
#include "chimera/runtime/stage.h"

namespace chimera {

// One micro-batch. Tokens and targets: [sequences, tokens] of int64, on the CPU.
struct Batch {
  at::Tensor tokens;                  // read by the first stage
  at::Tensor targets;                 // read by the last stage
  std::vector<std::int64_t> samples;  // global id of each sequence; for dropout
};

// Gives a micro-batch of the step under way; called by the worker's thread, by every stage.
using BatchSource = std::function<Batch(int micro)>;

// What the trainer sets before each step.
struct StepContext {
  bool training = true;  // false: forward only, no dropout, nothing stashed
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  double loss_scale = 1;
};

class TorchStage final : public Stage {
 public:
  // Creates the stage's parameters in `store`, which must outlive it. `spec` and `split` are legal.
  TorchStage(const ModelSpec& spec, std::span<const int> split, int stage, ParameterStore& store,
             BatchSource source);
  ~TorchStage() override;

  // Forgets losses, and what a step that failed left behind. Does not zero gradients: the store's
  // zero_gradients() does, once for all stages.
  void begin_step(const StepContext& context);

  Message forward(int micro, Message input) override;
  Message backward(int micro, Message gradient) override;
  [[nodiscard]] int in_flight() const override;
  [[nodiscard]] std::vector<Gradient> gradients() override;

  // Of the last stage, since begin_step: scaled losses added in order of micro-batches; and each.
  [[nodiscard]] double loss() const;
  [[nodiscard]] const std::map<int, double>& losses() const { return losses_; }

 private:
  struct Stash;

  [[nodiscard]] at::Tensor input_of(Message message, const Batch& batch) const;
  [[nodiscard]] at::Tensor loss_of(const at::Tensor& logits, const Batch& batch) const;

  ModelSpec spec_;
  int stage_;
  bool first_;
  bool last_;
  ParameterStore& store_;
  BatchSource source_;
  LayerChain layers_;
  StepContext context_;
  std::map<int, Stash> stash_;
  std::map<int, double> losses_;
};

}  // namespace chimera
