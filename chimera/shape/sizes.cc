#include "chimera/shape/sizes.h"

#include <array>
#include <set>
#include <string>

#include "chimera/base/check.h"
#include "chimera/shape/gpt2_sizes.h"
#include "chimera/shape/parameters.h"
#include "chimera/shape/split.h"

namespace chimera {
namespace {

// One forward or backward of a stage, as torch_stage.cc runs them.
class StageRun {
 public:
  StageRun(const ModelSpec& spec, std::span<const int> split, int stage,
           const MicroBatchSize& micro)
      : layers_(spec, micro.sequences, micro.threads),
        range_(layers_of_stage(split, stage)),
        first_(stage == 0),
        last_(stage + 1 == std::ssize(split)),
        shared_(spec.tied && first_ && last_),
        cut_(recompute_cut(split, stage, micro.recomputed_blocks)) {}

  // Leaves what is kept; the output message is gone.
  void forward(bool recomputed, Ledger& ledger) const {
    const int cut = recomputed ? cut_ : range_.begin;
    ledger.take(2 * layers_.tokens());  // the batch: tokens and targets
    if (!first_) ledger.take(layers_.hidden());
    for (int layer = range_.begin; layer < range_.end; ++layer) {
      layers_.forward(layer, layer >= cut, ledger);
      // What no graph holds ends when the next layer has used it; a stage's input is held anyway.
      if (layer < cut && layer > range_.begin) ledger.give(layers_.hidden());
    }
    if (last_) {
      layers_.loss_forward(cut < range_.end, ledger);
    } else {
      ledger.give(layers_.hidden());
    }
    if (!first_ || cut > range_.begin) ledger.give(layers_.tokens());
    if (!last_ || cut == range_.end) ledger.give(layers_.tokens());
  }

  // Begins with what a recomputed forward kept, and ends with the whole stash.
  void recompute(Ledger& ledger) const {
    if (cut_ == range_.begin) return;
    const bool whole = cut_ == range_.end;
    ledger.take(2 * layers_.tokens());
    for (int layer = range_.begin; layer < cut_; ++layer) layers_.forward(layer, true, ledger);
    if (whole && last_) layers_.loss_forward(true, ledger);
    // The output: another one of what the rest begins with, or of the message.
    if (!whole || !last_) ledger.give(layers_.hidden());
    if (!first_) ledger.give(layers_.tokens());
    if (!whole || !last_) ledger.give(layers_.tokens());
  }

  // Begins with the stash; leaves the gradient for the stage before.
  void backward(Ledger& ledger) const {
    if (last_) {
      layers_.loss_backward(ledger);
    } else {
      ledger.take(layers_.hidden());
    }
    for (int layer = range_.end; layer-- > range_.begin;) {
      layers_.backward(layer,
                       {.output_gradient_stays = !last_ && layer + 1 == range_.end,
                        .input_stays = !first_ && layer == range_.begin,
                        .table_shared = shared_},
                       ledger);
    }
    if (!last_) ledger.give(layers_.hidden());
    if (!first_) ledger.give(layers_.hidden());
  }

  [[nodiscard]] std::int64_t activation() const { return layers_.hidden(); }
  [[nodiscard]] bool first() const { return first_; }

 private:
  Gpt2Sizes layers_;
  LayerRange range_;
  bool first_, last_, shared_;
  int cut_;  // the first layer whose graph is kept
};

// What a forward leaves, and its most beyond that.
struct Effect {
  std::int64_t left = 0;
  std::int64_t work = 0;
};

Effect forward_effect(const StageRun& run, bool recomputed) {
  Ledger ledger;
  run.forward(recomputed, ledger);
  return {ledger.held(), ledger.peak() - ledger.held()};
}

}  // namespace

WeightSizes& WeightSizes::operator+=(const WeightSizes& other) {
  parameters += other.parameters;
  gradients += other.gradients;
  optimizer += other.optimizer;
  return *this;
}

WeightSizes parameter_sizes(const ModelSpec& spec, const ParameterSpec& parameter) {
  const auto bytes = static_cast<std::int64_t>(info(spec.parameter_dtype()).bytes);
  const auto narrow = static_cast<std::int64_t>(info(spec.dtype).bytes);
  const std::int64_t step = kParameterAlignment / bytes;
  const std::int64_t elements = parameter.elements();
  const std::int64_t aligned = (elements + step - 1) / step * step * bytes;
  return {.parameters = aligned + (narrow < bytes ? elements * narrow : 0),
          .gradients = aligned,
          .optimizer = 2 * elements * bytes + static_cast<std::int64_t>(sizeof(float))};
}

WeightSizes weight_sizes(const ModelSpec& spec, std::span<const int> split,
                         std::span<const int> stages) {
  WeightSizes sizes;
  std::set<std::string> seen;
  for (const int stage : stages) {
    for (const ParameterSpec& parameter : stage_parameters(spec, split, stage)) {
      if (seen.insert(parameter.name).second) sizes += parameter_sizes(spec, parameter);
    }
  }
  return sizes;
}

StageSizes stage_sizes(const ModelSpec& spec, std::span<const int> split, int stage,
                       const MicroBatchSize& micro) {
  const StageRun run(spec, split, stage, micro);
  const WeightSizes weights = weight_sizes(spec, split, std::array{stage});
  const Effect whole = forward_effect(run, false);
  const Effect partial = forward_effect(run, true);
  StageSizes sizes{.parameters = weights.parameters,
                   .gradients = weights.gradients,
                   .optimizer = weights.optimizer,
                   .stash = whole.left,
                   .kept = partial.left,
                   .forward_work = whole.work,
                   .kept_forward_work = partial.work,
                   .activation = run.activation()};
  Ledger ledger;
  ledger.take(sizes.kept);
  run.recompute(ledger);
  CHECK(ledger.held() == sizes.stash);
  sizes.recompute_work = ledger.peak() - sizes.stash;
  ledger = {};
  ledger.take(sizes.stash);
  run.backward(ledger);
  CHECK(ledger.held() == (run.first() ? 0 : sizes.activation));
  sizes.backward_work = ledger.peak() - sizes.stash;
  return sizes;
}

}  // namespace chimera
