// Predicted bytes against what the memory meter counts while the very stages run.
#include "chimera/shape/sizes.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <ostream>

#include "chimera/base/text.h"
#include "chimera/model/memory_meter.h"
#include "chimera/model/tensor.h"
#include "chimera/model/testing.h"
#include "chimera/shape/parameters.h"

namespace chimera {
namespace {

struct Case {
  std::string name;
  ModelSpec spec;
  std::vector<int> split;
  int sequences = 1;
  int threads = 1;
  bool also_tied = false;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::vector<Case> all_cases() {
  const ModelSpec small{.layers = 5, .hidden = 24, .heads = 2, .sequence = 10, .vocabulary = 101};
  const ModelSpec wide{.layers = 4, .hidden = 128, .heads = 4, .sequence = 32, .vocabulary = 96};
  const ModelSpec wordy{.layers = 4, .hidden = 32, .heads = 4, .sequence = 24, .vocabulary = 3000};
  const ModelSpec lengthy{
      .layers = 2, .hidden = 16, .heads = 2, .sequence = 200, .vocabulary = 50, .positions = 300};
  ModelSpec longer = lengthy;
  longer.sequence = longer.positions = 800;
  ModelSpec one_head = small;
  one_head.heads = 1;
  const std::vector<Case> shapes = {{"small", small, {1, 2, 1, 1}, 3, 1, true},
                                    {"small_alone", small, {1, 4}, 1},
                                    {"small_whole", small, {5}, 2, 1, true},
                                    {"one_head", one_head, {2, 3}, 2},
                                    {"wide", wide, {2, 1, 1}, 2},
                                    {"wordy", wordy, {1, 1, 2}, 4, 1, true},
                                    {"lengthy", lengthy, {1, 1}, 2},
                                    {"longer", longer, {1, 1}, 1},
                                    {"threaded", small, {2, 3}, 2, 2}};
  std::vector<Case> cases;
  for (const Case& shape : shapes) {
    for (const DType dtype : {DType::kFloat64, DType::kFloat32, DType::kBFloat16}) {
      for (const bool drops : {false, true}) {
        for (const bool tied : {false, true}) {
          if (tied && !shape.also_tied) continue;
          Case& c = cases.emplace_back(shape);
          c.spec.dtype = dtype;
          c.spec.dropout = drops ? 0.1 : 0;
          c.spec.tied = tied;
          c.name += cat("_", info(dtype).name, drops ? "_dropout" : "", tied ? "_tied" : "");
        }
      }
    }
  }
  return cases;
}

// What a piece of work leaves in an account, and its most beyond what is there before or after it.
struct Measured {
  std::int64_t left = 0;
  std::int64_t work = 0;
};

Measured measure(Account& account, const std::function<void()>& work) {
  const std::int64_t before = account.bytes();
  account.reset_peak();
  work();
  const std::int64_t after = account.bytes();
  return {after - before, account.peak_bytes() - std::max(before, after)};
}

// The bytes of scalars, which the prediction leaves out.
constexpr std::int64_t kScalars = 64;
// Of peaks: libtorch may choose kernels by the processor.
constexpr double kKernels = 0.01;

void expect_near(std::int64_t predicted, std::int64_t measured, double tolerance,
                 const std::string& what) {
  EXPECT_NEAR(static_cast<double>(predicted), static_cast<double>(measured),
              tolerance * static_cast<double>(measured) + static_cast<double>(kScalars))
      << what;
}

// On processors with instructions for bf16 libtorch's products pack matrices and add up in fp32,
// in memory that depends on the processor and that no size predicts.
bool bf16_products_need_memory() {
  install_memory_meter();
  const auto account = std::make_shared<Account>();
  const AccountScope scope(account);
  const at::Tensor factor = at::ones({64, 64}, at::kBFloat16);
  at::Tensor product;
  return measure(*account, [&] { product = at::mm(factor, factor); }).work > 0;
}

// A stage with an account and a store of its own.
struct LoneStage {
  std::shared_ptr<Account> account = std::make_shared<Account>();
  std::unique_ptr<ParameterStore> store;
  std::unique_ptr<TorchStage> stage;
};

class Sizes : public testing::TestWithParam<Case> {
 protected:
  Sizes() : spec_(GetParam().spec), batch_(make_batch(spec_, GetParam().sequences)) {
    install_memory_meter();
    threads_before_ = at::get_num_threads();
    at::set_num_threads(GetParam().threads);
  }
  ~Sizes() override { at::set_num_threads(threads_before_); }

  [[nodiscard]] StageSizes sizes(int stage, int recomputed_blocks = 0) const {
    return stage_sizes(spec_, GetParam().split, stage,
                       {.sequences = GetParam().sequences,
                        .recomputed_blocks = recomputed_blocks,
                        .threads = GetParam().threads});
  }
  [[nodiscard]] int blocks(int stage) const {
    return GetParam().split[static_cast<std::size_t>(stage)];
  }
  [[nodiscard]] int stages() const { return static_cast<int>(GetParam().split.size()); }

  // Fresh tensors, as the trainer makes them.
  [[nodiscard]] Batch fresh() const {
    return {batch_.tokens.contiguous().clone(), batch_.targets.contiguous().clone(),
            batch_.samples};
  }

  [[nodiscard]] std::vector<LoneStage> lone_stages(const StepContext& context) const {
    std::vector<LoneStage> workers(GetParam().split.size());
    for (int stage = 0; stage < stages(); ++stage) {
      LoneStage& worker = workers[static_cast<std::size_t>(stage)];
      const AccountScope scope(worker.account);
      worker.store = std::make_unique<ParameterStore>(1, spec_.dtype);
      worker.stage = std::make_unique<TorchStage>(spec_, GetParam().split, stage, *worker.store,
                                                  [this](int) { return fresh(); });
      worker.stage->begin_step(context);
    }
    return workers;
  }

  // At most what is predicted and what products of bf16 may need: a few packed tiles of each
  // thread, and the widest result in fp32.
  void expect_peak(std::int64_t predicted, std::int64_t measured, const std::string& what) const {
    if (spec_.dtype != DType::kBFloat16 || !bf16_products_need_memory()) {
      return expect_near(predicted, measured, kKernels, what);
    }
    constexpr std::int64_t kTiles = 64 << 10, kWidest = 4, kWide = 4;
    const std::int64_t rows = std::int64_t{GetParam().sequences} * spec_.sequence;
    const std::int64_t more = GetParam().threads * kTiles + rows * kWidest * spec_.hidden * kWide;
    EXPECT_GE(measured, predicted - kScalars) << what;
    EXPECT_LE(measured, predicted + more) << what;
  }

  ModelSpec spec_;
  Batch batch_;
  int threads_before_ = 1;
};

TEST_P(Sizes, OfWeightsAreThoseOfTheStore) {
  const auto account = std::make_shared<Account>();
  const AccountScope scope(account);
  for (int stage = 0; stage < stages(); ++stage) {
    const std::int64_t before = account->bytes();
    ParameterStore store(1, spec_.dtype);
    store.create(stage_parameters(spec_, GetParam().split, stage));
    const StageSizes predicted = sizes(stage);
    EXPECT_EQ(account->bytes() - before, predicted.parameters + predicted.gradients);
    std::int64_t gradients = 0;
    for (const Flat& flat : store.flats()) {
      gradients += static_cast<std::int64_t>(flat.gradients.nbytes());
    }
    EXPECT_EQ(predicted.gradients, gradients);
    // As AdamW has it (train/adamw.cc).
    std::vector<at::Tensor> state;
    const std::int64_t without = account->bytes();
    for (const auto& [name, parameter] : store.parameters()) {
      for (int moment = 0; moment < 2; ++moment) {
        state.push_back(at::zeros_like(parameter.gradient));
      }
      state.push_back(at::zeros({}, at::kFloat));
    }
    EXPECT_EQ(account->bytes() - without, predicted.optimizer);
  }
}

TEST_P(Sizes, OfPassesAreThoseOfTheStage) {
  std::vector<LoneStage> workers = lone_stages({.seed = 1});
  // Forward, and backward in reverse. The output, once made, goes on to its receiver.
  Message message;
  std::vector<Measured> forwards;
  for (LoneStage& worker : workers) {
    const AccountScope scope(worker.account);
    Measured forward = measure(*worker.account,
                               [&] { message = worker.stage->forward(0, std::move(message), {}); });
    const auto output = message ? static_cast<std::int64_t>(message.bytes()) : 0;
    forward.left -= output;
    forward.work += output;
    forwards.push_back(forward);
  }
  for (int stage = stages(); stage-- > 0;) {
    LoneStage& worker = workers[static_cast<std::size_t>(stage)];
    const AccountScope scope(worker.account);
    const Measured backward =
        measure(*worker.account, [&] { message = worker.stage->backward(0, std::move(message)); });
    const StageSizes predicted = sizes(stage);
    const Measured& forward = forwards[static_cast<std::size_t>(stage)];
    const std::string at = cat(GetParam().name, " stage ", stage, " ");
    if (message) {
      EXPECT_EQ(predicted.activation, static_cast<std::int64_t>(message.bytes()));
    }
    expect_near(predicted.stash, forward.left, 0, at + "stash");
    expect_peak(predicted.stash + predicted.forward_work, forward.left + forward.work,
                at + "forward");
    expect_peak(predicted.stash + predicted.backward_work, forward.left + backward.work,
                at + "backward");
  }
}

// A forward without a graph is one whose whole stage is to be recomputed. Without dropout, for
// there is none outside of training.
TEST_P(Sizes, OfAForwardThatKeepsItsInputAloneAreThoseWithoutAGraph) {
  if (spec_.dropout > 0) return;
  std::vector<LoneStage> workers = lone_stages({.training = false});
  Message message;
  for (int stage = 0; stage < stages(); ++stage) {
    LoneStage& worker = workers[static_cast<std::size_t>(stage)];
    const AccountScope scope(worker.account);
    const std::int64_t before = worker.account->bytes();
    worker.account->reset_peak();
    message = worker.stage->forward(0, std::move(message), {});
    const StageSizes predicted = sizes(stage, blocks(stage));
    EXPECT_EQ(predicted.kept, stage == 0 ? 0 : predicted.activation);
    expect_peak(predicted.kept + predicted.kept_forward_work, worker.account->peak_bytes() - before,
                cat(GetParam().name, " stage ", stage, " forward without graph"));
  }
}

// The first blocks of a stage without a graph, then the rest with one, then the first ones again.
TEST_P(Sizes, OfARecomputedPartAreThoseOfAChainInTwo) {
  for (int stage = 0; stage + 1 < stages(); ++stage) {
    for (int recomputed = 1; recomputed < blocks(stage); ++recomputed) {
      const auto account = std::make_shared<Account>();
      const AccountScope scope(account);
      ParameterStore store(1, spec_.dtype);
      store.create(stage_parameters(spec_, GetParam().split, stage));
      const LayerRange range = layers_of_stage(GetParam().split, stage);
      const int middle = range.begin + (stage == 0 ? 1 : 0) + recomputed;
      const LayerChain front(spec_, {range.begin, middle}, store);
      const LayerChain back(spec_, {middle, range.end}, store);
      const Pass pass{.training = true, .samples = batch_.samples};
      at::Tensor entry, leaf, rest, first;
      const auto entry_of = [&](const Batch& batch) {
        if (stage == 0) return batch.tokens;
        if (!entry.defined()) {
          entry =
              at::ones({batch.tokens.size(0), spec_.sequence, spec_.hidden}, to_torch(spec_.dtype));
        }
        return entry;
      };
      const auto account_of = [&](const Measured& m) { return m.left + m.work; };
      const Measured forward = measure(*account, [&] {
        const Batch batch = fresh();
        {
          const at::NoGradGuard no_grad;
          leaf = front.forward(entry_of(batch), pass).detach();
        }
        rest = back.forward(leaf.set_requires_grad(true), pass);
      });
      const StageSizes predicted = sizes(stage, recomputed);
      const std::int64_t output = predicted.activation;
      const std::string at = cat(GetParam().name, " stage ", stage, " of ", recomputed, " again, ");
      expect_near(predicted.kept, forward.left - output, 0, at + "kept");
      expect_peak(predicted.kept + predicted.kept_forward_work, account_of(forward),
                  at + "forward");
      const Measured again = measure(*account, [&] {
        const Batch batch = fresh();
        if (stage > 0) entry.set_requires_grad(true);
        first = front.forward(entry_of(batch), pass);
      });
      // Now both hold their outputs, of which the stage keeps none.
      expect_near(predicted.stash, forward.left + again.left - 2 * output, 0, at + "stash");
      expect_peak(predicted.stash + predicted.recompute_work,
                  forward.left - output + account_of(again), at + "recompute");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Sizes, testing::ValuesIn(all_cases()),
                         [](const auto& info) { return info.param.name; });

TEST(WorkerSizes, CountWhatStagesShareOnce) {
  ModelSpec spec = tiny_spec();
  const std::vector<int> split = {3, 2, 2, 1};
  const std::vector<int> ends = {0, 3}, first = {0}, last = {3};
  const auto both = [&] { return weight_sizes(spec, split, ends); };
  const auto sum = [&](auto member) {
    return weight_sizes(spec, split, first).*member + weight_sizes(spec, split, last).*member;
  };
  EXPECT_EQ(both().gradients, sum(&WeightSizes::gradients));
  spec.tied = true;
  EXPECT_EQ(sum(&WeightSizes::gradients) - both().gradients, 101 * 32 * 8);
  install_memory_meter();
  const auto account = std::make_shared<Account>();
  const AccountScope scope(account);
  ParameterStore store(1, spec.dtype);
  for (const int stage : ends) store.create(stage_parameters(spec, split, stage));
  EXPECT_EQ(account->bytes(), both().parameters + both().gradients);
}

TEST(EmptyMicroBatches, TakeNothing) {
  const std::vector<int> split = {3, 2, 2, 1};
  for (const int stage : {0, 1, 3}) {
    const StageSizes sizes = stage_sizes(tiny_spec(), split, stage, {.sequences = 0});
    EXPECT_LE(sizes.stash + sizes.forward_work, 64);
  }
}

}  // namespace
}  // namespace chimera
