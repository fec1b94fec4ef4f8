#include "chimera/model/torch_stage.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/torch.h>

#include <utility>

#include "chimera/base/check.h"
#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/model/parameters.h"
#include "chimera/model/tensor.h"

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

// Runs autograd from one edge of the graph; adds to the gradients of all leaves below it.
void run_backward(const torch::autograd::Edge& root, at::Tensor gradient) {
  torch::autograd::Engine::get_default_engine().execute(
      {root}, {std::move(gradient)}, /*keep_graph=*/false, /*create_graph=*/false,
      /*accumulate_grad=*/true);
}

}  // namespace

struct TorchStage::Stash {
  at::Tensor input;            // a leaf; not kept by the first stage
  torch::autograd::Edge root;  // of the output, or of the loss
  at::TensorOptions options;   // of the output
  std::vector<std::int64_t> shape;
};

TorchStage::TorchStage(const ModelSpec& spec, std::span<const int> split, int stage,
                       ParameterStore& store, BatchSource source)
    : spec_(spec),
      stage_(stage),
      first_(stage == 0),
      last_(stage + 1 == std::ssize(split)),
      store_(store),
      source_(std::move(source)),
      layers_(spec, layers_of_stage(split, stage), with_parameters(spec, split, stage, store)) {}

TorchStage::~TorchStage() = default;

void TorchStage::begin_step(const StepContext& context) {
  context_ = context;
  losses_.clear();
  stash_.clear();
}

at::Tensor TorchStage::input_of(Message message, const Batch& batch) const {
  if (first_) {
    CHECK(!message);
    check_tokens(batch.tokens, spec_);
    return batch.tokens.to(store_.device());
  }
  CHECK(message && message.shape.size() == 3 && message.dtype == spec_.dtype &&
        message.shape[2] == spec_.hidden);
  return to_tensor(std::move(message), store_.device());
}

at::Tensor TorchStage::loss_of(const at::Tensor& logits, const Batch& batch) const {
  check_tokens(batch.targets, spec_);
  const at::Tensor rows = logits.view({-1, logits.size(-1)});
  const at::Tensor wide = rows.scalar_type() == at::kBFloat16 ? rows.to(at::kFloat) : rows;
  const at::Tensor sum = at::cross_entropy_loss(
      wide, batch.targets.to(store_.device()).reshape({-1}), /*weight=*/{}, at::Reduction::Sum);
  return sum * context_.loss_scale;
}

Message TorchStage::forward(int micro, Message input) {
  const at::AutoGradMode grad_mode(context_.training);
  const Batch batch = source_(micro);
  at::Tensor entry = input_of(std::move(input), batch);
  if (context_.training && !first_) entry.set_requires_grad(true);
  const Pass pass{.training = context_.training,
                  .seed = context_.seed,
                  .step = context_.step,
                  .samples = batch.samples};
  at::Tensor output = layers_.forward(entry, pass);
  if (last_) {
    output = loss_of(output, batch);
    losses_[micro] = output.item<double>();
  }
  if (context_.training) {
    const bool fresh =
        stash_
            .emplace(micro, Stash{.input = first_ ? at::Tensor() : std::move(entry),
                                  .root = torch::autograd::impl::gradient_edge(output),
                                  .options = output.options(),
                                  .shape = output.sizes().vec()})
            .second;
    CHECK(fresh);
  }
  return last_ ? Message{} : to_message(output);
}

Message TorchStage::backward(int micro, Message gradient) {
  auto node = stash_.extract(micro);
  CHECK(!node.empty());
  Stash& stash = node.mapped();
  CHECK(static_cast<bool>(gradient) != last_);
  at::Tensor incoming = last_ ? at::ones(stash.shape, stash.options)
                              : to_tensor(std::move(gradient), store_.device());
  CHECK(incoming.sizes() == at::IntArrayRef(stash.shape));
  run_backward(std::exchange(stash.root, {}), std::move(incoming));
  if (first_) return {};
  return to_message(stash.input.grad());
}

int TorchStage::in_flight() const { return static_cast<int>(stash_.size()); }

std::vector<Gradient> TorchStage::gradients() {
  std::vector<Gradient> result;
  for (const Flat& flat : store_.flats()) {
    for (const int stage : flat.stages) {
      if (stage == stage_) result.push_back({to_buffer(flat.gradients), flat.stages});
    }
  }
  return result;
}

double TorchStage::loss() const {
  double sum = 0;
  for (const auto& [micro, loss] : losses_) sum += loss;
  return sum;
}

}  // namespace chimera
