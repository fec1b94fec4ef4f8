#include "chimera/model/torch_stage.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "chimera/base/check.h"
#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/model/memory_meter.h"
#include "chimera/model/tensor.h"
#include "chimera/shape/parameters.h"

namespace chimera {
namespace {

// Creates parameters before the layers look for them.
const ParameterStore& with_parameters(const ModelSpec& spec, std::span<const int> split, int stage,
                                      ParameterStore& store) {
  CHECK(store.compute_dtype() == spec.dtype);
  store.create(stage_parameters(spec, split, stage));
  return store;
}

void check_tokens(const at::Tensor& tokens, const ModelSpec& spec) {
  CHECK(tokens.dim() == 2 && tokens.scalar_type() == at::kLong);
  if (tokens.size(1) > spec.position_count()) {
    throw Error(ErrorCode::kData,
                cat("a sequence has ", tokens.size(1), " tokens, expected at most ",
                    spec.position_count(), "; use shorter sequences or a larger model.positions"));
  }
  const at::Tensor dense = tokens.contiguous();
  const std::span<const std::int64_t> values(dense.const_data_ptr<std::int64_t>(),
                                             static_cast<std::size_t>(dense.numel()));
  for (const std::int64_t token : values) {
    if (0 <= token && token < spec.vocabulary) continue;
    throw Error(ErrorCode::kData, cat("token ", token, " is outside the vocabulary of ",
                                      spec.vocabulary, ", expected 0 to ", spec.vocabulary - 1,
                                      "; use the tokenizer that the model was made for"));
  }
}

// A message's bytes are this worker's from here on.
at::Tensor take_over(Message message, at::Device device) {
  if (device.is_cpu()) adopt(message);
  return to_tensor(std::move(message), device);
}

// Runs autograd from one edge of the graph; adds to the gradients of all leaves below it.
void run_backward(const torch::autograd::Edge& root, at::Tensor gradient) {
  torch::autograd::Engine::get_default_engine().execute(
      {root}, {std::move(gradient)}, /*keep_graph=*/false, /*create_graph=*/false,
      /*accumulate_grad=*/true);
}

// While it lives, a stage's parameters are those of an older version.
class OlderWeights {
 public:
  OlderWeights(ParameterStore& store, int stage, int age)
      : store_(store), stage_(stage), age_(age) {
    if (age_ != 0) store_.exchange(stage_, age_);
  }
  ~OlderWeights() {
    if (age_ != 0) store_.exchange(stage_, age_);
  }
  OlderWeights(const OlderWeights&) = delete;
  OlderWeights& operator=(const OlderWeights&) = delete;

 private:
  ParameterStore& store_;
  int stage_, age_;
};

}  // namespace

// The end of a piece of autograd graph, without the values there.
struct TorchStage::Graph {
  torch::autograd::Edge root;
  at::TensorOptions options;
  std::vector<std::int64_t> shape;
};

struct TorchStage::Stash {
  at::Tensor input;                    // a leaf; of the first stage none
  std::optional<Graph> before, after;  // the cut
  at::Tensor cut;                      // the value there, a leaf
};

TorchStage::TorchStage(const ModelSpec& spec, std::span<const int> split, int stage,
                       ParameterStore& store, BatchSource source,
                       std::optional<int> recomputed_blocks)
    : spec_(spec),
      stage_(stage),
      first_(stage == 0),
      last_(stage + 1 == std::ssize(split)),
      store_(store),
      source_(std::move(source)),
      layers_(layers_of_stage(split, stage)),
      cut_(recompute_cut(split, stage,
                         recomputed_blocks.value_or(split[static_cast<std::size_t>(stage)]))),
      before_(spec, {layers_.begin, cut_}, with_parameters(spec, split, stage, store)),
      after_(spec, {cut_, layers_.end}, store) {}

TorchStage::~TorchStage() = default;

void TorchStage::begin_step(const StepContext& context) {
  context_ = context;
  losses_.clear();
  stash_.clear();
}

Pass TorchStage::pass_of(const Batch& batch) const {
  return {.training = context_.training,
          .seed = context_.seed,
          .step = batch.step,
          .samples = batch.samples};
}

at::Tensor TorchStage::input_of(Message message, const Batch& batch) const {
  if (first_) {
    CHECK(!message);
    check_tokens(batch.tokens, spec_);
    return batch.tokens.to(store_.device());
  }
  CHECK(message && message.shape.size() == 3 && message.dtype == spec_.dtype &&
        message.shape[2] == spec_.hidden);
  return take_over(std::move(message), store_.device());
}

at::Tensor TorchStage::loss_of(const at::Tensor& logits, const Batch& batch) const {
  check_tokens(batch.targets, spec_);
  const at::Tensor rows = logits.view({-1, logits.size(-1)});
  const at::Tensor wide = rows.scalar_type() == at::kBFloat16 ? rows.to(at::kFloat) : rows;
  const at::Tensor sum = at::cross_entropy_loss(
      wide, batch.targets.to(store_.device()).reshape({-1}), /*weight=*/{}, at::Reduction::Sum);
  return sum * batch.loss_scale;
}

at::Tensor TorchStage::run_before(const at::Tensor& input, const Batch& batch) const {
  const at::Tensor output = before_.forward(input, pass_of(batch));
  return last_ && cut_at_end() ? loss_of(output, batch) : output;
}

at::Tensor TorchStage::run_after(const at::Tensor& cut, const Batch& batch) const {
  const at::Tensor output = after_.forward(cut, pass_of(batch));
  return last_ && !cut_at_end() ? loss_of(output, batch) : output;
}

at::Tensor TorchStage::run_whole(const at::Tensor& input, const Batch& batch) const {
  return run_after(run_before(input, batch), batch);
}

TorchStage::Graph TorchStage::graph_of(const at::Tensor& output) {
  return {torch::autograd::impl::gradient_edge(output), output.options(), output.sizes().vec()};
}

Message TorchStage::forward(int micro, Message input, ForwardUse use) {
  const OlderWeights weights(store_, stage_, use.age);
  const Batch batch = source_(micro);
  Stash stash;
  at::Tensor entry = input_of(std::move(input), batch);
  if (context_.training && !first_) entry.set_requires_grad(true);
  at::Tensor output;
  if (use.recomputed && context_.training) {
    {
      const at::NoGradGuard no_grad;
      stash.cut = run_before(entry, batch);
    }
    output = stash.cut;
    if (!cut_at_end()) {
      stash.cut.set_requires_grad(true);
      output = run_after(stash.cut, batch);
      stash.after = graph_of(output);
    } else {
      stash.cut = at::Tensor();
    }
  } else {
    const at::AutoGradMode grad_mode(context_.training);
    output = run_whole(entry, batch);
    if (context_.training) stash.before = graph_of(output);
  }
  if (!first_) stash.input = std::move(entry);
  if (context_.training) CHECK(stash_.emplace(micro, std::move(stash)).second);
  if (!last_) return to_message(output);
  losses_[micro] = output.item<double>();
  return {};
}

void TorchStage::recompute(int micro, int age) {
  const OlderWeights weights(store_, stage_, age);
  const at::AutoGradMode grad_mode(true);
  Stash& stash = stash_.at(micro);
  CHECK(!stash.before);
  const Batch batch = source_(micro);
  const at::Tensor entry = first_ ? input_of({}, batch) : stash.input;
  // With nothing before the cut there is nothing to do again.
  const at::Tensor cut = run_before(entry, batch);
  if (cut.grad_fn() != nullptr) stash.before = graph_of(cut);
}

Message TorchStage::backward(int micro, Message gradient) {
  auto node = stash_.extract(micro);
  CHECK(!node.empty());
  Stash& stash = node.mapped();
  CHECK(static_cast<bool>(gradient) != last_);
  const Graph& end = stash.after ? *stash.after : *stash.before;
  at::Tensor incoming =
      last_ ? at::ones(end.shape, end.options) : take_over(std::move(gradient), store_.device());
  CHECK(incoming.sizes() == at::IntArrayRef(end.shape));
  if (stash.after) {
    run_backward(std::exchange(stash.after->root, {}), std::move(incoming));
    incoming = std::exchange(stash.cut, {}).grad();
  }
  if (stash.before) run_backward(std::exchange(stash.before->root, {}), std::move(incoming));
  if (first_) return {};
  return to_message(stash.input.grad());
}

int TorchStage::in_flight() const {
  return static_cast<int>(std::count_if(stash_.begin(), stash_.end(), [](const auto& entry) {
    return entry.second.before.has_value();
  }));
}

std::vector<Gradient> TorchStage::gradients() {
  std::vector<Gradient> result;
  for (const Flat& flat : store_.flats()) {
    for (const int stage : flat.stages) {
      if (stage == stage_) result.push_back({to_buffer(flat.gradients), flat.stages});
    }
  }
  return result;
}

double TorchStage::take_loss(int first, int count) {
  double sum = 0;
  for (int micro = first; micro < first + count; ++micro) {
    const auto found = losses_.extract(micro);
    if (!found.empty()) sum += found.mapped();
  }
  return sum;
}

}  // namespace chimera
