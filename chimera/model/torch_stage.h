// One stage of a model, computed by libtorch: layers forward, autograd backward.
//
// A forward stashes the stage's input and its graph, and nothing of its output, whose bytes travel
// on in the message; backward frees both. The last stage's output is its loss: the sum over tokens
// of the cross entropy, times one over the tokens of the whole mini-batch (Batch::loss_scale). So
// gradients added up over micro-batches and replicas are those of the mean loss per token, however
// the mini-batch is cut. A micro-batch may be empty.
//
// Recompute: the stage's layers are cut in two, those that a recomputed forward does not keep and,
// after them, those that it does. Such a forward stashes its input, the value at the cut, and the
// graph from there on; recompute makes the graph before the cut again from the input. Random
// numbers are a function of what they are for, so it is the same graph to the last bit.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "chimera/model/layer.h"
#include "chimera/model/store.h"
#include "chimera/runtime/stage.h"
#include "chimera/shape/spec.h"

namespace chimera {

// One micro-batch. Tokens and targets: [sequences, tokens] of int64, on the CPU.
struct Batch {
  at::Tensor tokens = {};                  // read by the first stage
  at::Tensor targets = {};                 // read by the last stage
  std::vector<std::int64_t> samples = {};  // global id of each sequence; for dropout
  std::int64_t step = 0;                   // of the optimizer; for dropout
  double loss_scale = 1;                   // one over the tokens of the whole mini-batch
};

// Gives a micro-batch of the step under way; called by the worker's thread, by every stage. Tokens
// and targets may be missing where the stage does not read them.
using BatchSource = std::function<Batch(int micro)>;

// What the trainer sets before a pass over micro-batches.
struct StepContext {
  bool training = true;  // false: forward only, no dropout, nothing stashed
  std::uint64_t seed = 0;
};

class TorchStage final : public Stage {
 public:
  // Creates the stage's parameters in `store`, which must outlive it. `spec` and `split` are legal.
  // A forward that is to be recomputed does not keep what the first `recomputed_blocks` blocks of
  // the stage (and the embedding before them) compute; all blocks stand for the whole stage, head
  // and loss included.
  TorchStage(const ModelSpec& spec, std::span<const int> split, int stage, ParameterStore& store,
             BatchSource source, std::optional<int> recomputed_blocks = {});
  ~TorchStage() override;

  // Forgets losses, and what a step that failed left behind. Does not zero gradients: the store's
  // zero_gradients() does, once for all stages.
  void begin_step(const StepContext& context);

  Message forward(int micro, Message input, ForwardUse use) override;
  void recompute(int micro, int age) override;
  Message backward(int micro, Message gradient) override;
  void stash_weights() override { store_.stash(stage_); }
  void free_weights(int age) override { store_.free(stage_, age); }
  [[nodiscard]] int in_flight() const override;
  [[nodiscard]] std::vector<Gradient> gradients() override;

  // Of the last stage: the sum of the scaled losses of `count` micro-batches from `first` on, in
  // their order. Forgets them.
  [[nodiscard]] double take_loss(int first, int count);

 private:
  struct Graph;
  struct Stash;

  [[nodiscard]] bool cut_at_end() const { return cut_ == layers_.end; }
  [[nodiscard]] Pass pass_of(const Batch& batch) const;
  [[nodiscard]] at::Tensor input_of(Message message, const Batch& batch) const;
  [[nodiscard]] at::Tensor loss_of(const at::Tensor& logits, const Batch& batch) const;
  // From the stage's input to the cut; the loss where the cut is the end of the last stage.
  [[nodiscard]] at::Tensor run_before(const at::Tensor& input, const Batch& batch) const;
  [[nodiscard]] at::Tensor run_after(const at::Tensor& cut, const Batch& batch) const;
  [[nodiscard]] at::Tensor run_whole(const at::Tensor& input, const Batch& batch) const;
  [[nodiscard]] static Graph graph_of(const at::Tensor& output);

  ModelSpec spec_;
  int stage_;
  bool first_;
  bool last_;
  ParameterStore& store_;
  BatchSource source_;
  LayerRange layers_;
  int cut_;  // the first layer after it
  LayerChain before_, after_;
  StepContext context_;
  std::map<int, Stash> stash_;
  std::map<int, double> losses_;
};

}  // namespace chimera
