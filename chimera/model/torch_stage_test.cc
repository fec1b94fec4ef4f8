#include "chimera/model/torch_stage.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <numeric>
#include <thread>

#include "chimera/base/error.h"
#include "chimera/model/testing.h"

namespace chimera {
namespace {

struct Cut {
  std::vector<int> split;
  std::vector<int> sizes;
};

// Reported cases (docs/cases.md): G1, G7.
TEST(TorchStage, LossAndGradientsDoNotDependOnTheCut) {
  const std::vector<Cut> cuts = {{{8}, {2, 2, 1}},
                                 {{4, 4}, {5}},
                                 {{3, 2, 2, 1}, {1, 1, 1, 1, 1}},
                                 {{1, 1, 1, 1, 1, 1, 1, 1}, {2, 3}},
                                 {{3, 2, 2, 1}, {3, 0, 2}}};
  for (const bool tied : {false, true}) {
    for (const double dropout : {0.0, 0.1}) {
      ModelSpec spec = tiny_spec();
      spec.tied = tied;
      spec.dropout = dropout;
      const Batch batch = make_batch(spec, 5);
      TestPipeline reference(spec, {8}, batch, {5});
      const double loss = reference.step();
      for (const Cut& cut : cuts) {
        TestPipeline pipeline(spec, cut.split, batch, cut.sizes);
        EXPECT_NEAR(pipeline.step(), loss, 1e-12 * loss);
        expect_close(pipeline.gradients(), reference.gradients(), 1e-12);
      }
    }
  }
}

// Same masks, same gradients, to the last bit; wherever the stage is cut, also where the embedding
// is recomputed, whose input has no gradient.
// Reported cases (docs/cases.md): G26, G28.
TEST(TorchStage, RecomputeChangesNoBit) {
  for (const DType dtype : {DType::kFloat64, DType::kFloat32, DType::kBFloat16}) {
    for (const bool tied : {false, true}) {
      ModelSpec spec = tiny_spec();
      spec.dtype = dtype;
      spec.dropout = 0.1;
      spec.tied = tied;
      const Batch batch = make_batch(spec, 5);
      const std::vector<int> split = {4, 4}, sizes = {2, 3};
      TestPipeline plain(spec, split, batch, sizes);
      const double loss = plain.step();
      for (const int blocks : {1, 3, 4}) {
        TestPipeline again(spec, split, batch, sizes, false, 1, blocks);
        again.recompute = true;
        EXPECT_EQ(again.step(), loss);
        for (const auto& [name, gradient] : plain.gradients()) {
          EXPECT_TRUE(at::equal(gradient, again.gradients().at(name))) << name << " " << blocks;
          EXPECT_GT(gradient.abs().max().item<double>(), 0) << name;
        }
      }
    }
  }
}

// A micro-batch in flight keeps the weights that its forward read, whatever steps come.
TEST(TorchStage, BackwardUsesTheWeightsOfItsForward) {
  const ModelSpec spec = tiny_spec();
  TestPipeline pipeline(spec, {4, 4}, make_batch(spec, 2), {1, 1});
  TestPipeline oracle(spec, {4, 4}, make_batch(spec, 2), {1, 1});
  const auto step = [](TestPipeline& pipe, double by) {  // as an optimizer would
    const at::NoGradGuard no_grad;
    for (int stage = 0; stage < 2; ++stage) {
      for (const auto& [name, parameter] :
           pipe.stores[static_cast<std::size_t>(stage)]->parameters())
        parameter.value.mul_(by);
      pipe.stores[static_cast<std::size_t>(stage)]->stepped(stage);
    }
  };
  oracle.begin();
  oracle.forward(0), oracle.backward(0);
  oracle.forward(1), oracle.backward(1);  // both with the first weights
  pipeline.begin();
  pipeline.forward(0);
  for (int stage = 0; stage < 2; ++stage) {
    pipeline.stages[static_cast<std::size_t>(stage)]->stash_weights();
  }
  step(pipeline, 0.5);
  pipeline.backward(0);
  Message message;  // a forward with the older weights, then one with them again by recompute
  message = pipeline.stages[0]->forward(1, {}, {.age = 1, .recomputed = true});
  (void)pipeline.stages[1]->forward(1, std::move(message), {.age = 1});
  message = pipeline.stages[1]->backward(1, {});
  pipeline.stages[0]->recompute(1, 1);
  (void)pipeline.stages[0]->backward(1, std::move(message));
  for (const auto& [name, gradient] : oracle.gradients()) {
    EXPECT_TRUE(at::equal(gradient, pipeline.gradients().at(name))) << name;
  }
  for (int stage = 0; stage < 2; ++stage) {
    pipeline.stages[static_cast<std::size_t>(stage)]->free_weights(1);
  }
  const auto& newest = pipeline.stores[0]->at("h.0.attn.c_attn.weight").value;
  EXPECT_TRUE(at::equal(newest, oracle.stores[0]->at("h.0.attn.c_attn.weight").value * 0.5));
}

TEST(TorchStage, DropoutChangesWithTheStepAndNotWithTheRun) {
  ModelSpec spec = tiny_spec();
  spec.dropout = 0.3;
  TestPipeline pipeline(spec, {4, 4}, make_batch(spec, 2), {1, 1});
  const double first = pipeline.step();
  EXPECT_EQ(pipeline.step(), first);
  ++pipeline.optimizer_step;
  EXPECT_NE(pipeline.step(), first);
}

// Reported cases (docs/cases.md): G21.
TEST(TorchStage, BothEndsOfATiedModelOnOneWorkerShareTensorAndBuffer) {
  ModelSpec spec = tiny_spec();
  spec.tied = true;
  const Batch batch = make_batch(spec, 4);
  TestPipeline apart(spec, {3, 2, 2, 1}, batch, {2, 2});
  TestPipeline together(spec, {3, 2, 2, 1}, batch, {2, 2}, /*one_store=*/true);
  EXPECT_NEAR(together.step(), apart.step(), 1e-12);
  expect_close(together.gradients(), apart.gradients(), 1e-12);
  const auto shared = [](TorchStage& stage) {
    for (const Gradient& gradient : stage.gradients()) {
      if (gradient.stages == std::vector<int>{0, 3}) return gradient.buffer.data;
    }
    return static_cast<std::byte*>(nullptr);
  };
  EXPECT_NE(shared(*together.stages[0]), nullptr);
  EXPECT_EQ(shared(*together.stages[0]), shared(*together.stages[3]));
  EXPECT_EQ(shared(*together.stages[1]), nullptr);
  EXPECT_NE(shared(*apart.stages[0]), shared(*apart.stages[3]));
}

TEST(TorchStage, GradientsStayInTheirFlatBuffers) {
  const ModelSpec spec = tiny_spec();
  TestPipeline pipeline(spec, {5, 3}, make_batch(spec, 3), {2, 1});
  for (int step = 0; step < 2; ++step) {
    (void)pipeline.step();
    for (const auto& store : pipeline.stores) {
      ASSERT_EQ(store->flats().size(), 1U);
      for (const auto& [name, parameter] : store->parameters()) {
        EXPECT_EQ(parameter.value.grad().data_ptr(), parameter.gradient.data_ptr()) << name;
        EXPECT_TRUE(parameter.value.grad().is_alias_of(store->flats().front().gradients));
      }
      EXPECT_GT(store->flats().front().gradients.abs().sum().item<double>(), 0);
    }
  }
  const std::vector<Gradient> gradients = pipeline.stages[1]->gradients();
  ASSERT_EQ(gradients.size(), 1U);
  EXPECT_EQ(gradients[0].stages, std::vector<int>{1});
  EXPECT_EQ(gradients[0].buffer.data,
            static_cast<std::byte*>(pipeline.stores[1]->flats().front().gradients.data_ptr()));
}

// Reported cases (docs/cases.md): M6.
TEST(TorchStage, MessagesAreNotCopiedAndAreFreedByBackward) {
  const ModelSpec spec = tiny_spec();
  TestPipeline pipeline(spec, {4, 4}, make_batch(spec, 2), {1, 1});
  pipeline.begin();
  Message message = pipeline.stages[0]->forward(0, {}, {});
  EXPECT_EQ(message.shape, (std::vector<std::int64_t>{1, spec.sequence, spec.hidden}));
  EXPECT_EQ(message.dtype, DType::kFloat64);
  const std::weak_ptr<void> bytes = message.owner;
  (void)pipeline.stages[1]->forward(0, std::move(message), {});
  EXPECT_FALSE(bytes.expired());  // stashed as it came
  EXPECT_EQ(pipeline.stages[0]->in_flight(), 1);
  EXPECT_EQ(pipeline.stages[1]->in_flight(), 1);
  Message gradient = pipeline.stages[1]->backward(0, {});
  EXPECT_TRUE(bytes.expired());
  EXPECT_EQ(pipeline.stages[1]->in_flight(), 0);
  (void)pipeline.stages[0]->backward(0, std::move(gradient));
  EXPECT_EQ(pipeline.stages[0]->in_flight(), 0);
}

// Reported cases (docs/cases.md): G19.
TEST(TorchStage, BackwardsMayComeInAnyOrder) {
  const ModelSpec spec = tiny_spec();
  const Batch batch = make_batch(spec, 3);
  TestPipeline in_order(spec, {4, 4}, batch, {1, 1, 1});
  const double loss = in_order.step();
  TestPipeline other(spec, {4, 4}, batch, {1, 1, 1});
  other.begin();
  for (const int micro : {2, 0, 1}) other.forward(micro);
  for (const int micro : {0, 2, 1}) other.backward(micro);
  EXPECT_EQ(other.loss(), loss);  // added in order of micro-batches
  expect_close(other.gradients(), in_order.gradients(), 1e-12);
}

// Reported cases (docs/cases.md): G12.
TEST(TorchStage, EvaluationStashesNothingAndLeavesGradientsAlone) {
  ModelSpec spec = tiny_spec();
  TestPipeline pipeline(spec, {4, 4}, make_batch(spec, 2), {1, 1});
  const double loss = pipeline.step();
  const auto before = pipeline.gradients();
  pipeline.context.training = false;
  for (auto& stage : pipeline.stages) stage->begin_step(pipeline.context);
  for (const int micro : {0, 1}) pipeline.forward(micro);
  EXPECT_NEAR(pipeline.loss(), loss, 1e-14);
  for (auto& stage : pipeline.stages) EXPECT_EQ(stage->in_flight(), 0);
  expect_close(pipeline.gradients(), before, 0);
}

TEST(TorchStage, AStepThatFailedLeavesNothingToTheNext) {
  const ModelSpec spec = tiny_spec();
  TestPipeline pipeline(spec, {4, 4}, make_batch(spec, 2), {1, 1});
  const double loss = pipeline.step();
  pipeline.forward(0);
  EXPECT_EQ(pipeline.stages[0]->in_flight(), 1);
  EXPECT_EQ(pipeline.step(), loss);
}

TEST(TorchStage, RefusesATokenOutsideTheVocabulary) {
  const ModelSpec spec = tiny_spec();
  for (const std::int64_t token : {std::int64_t{101}, std::int64_t{-1}}) {
    for (const bool target : {false, true}) {
      Batch batch = make_batch(spec, 2);
      at::Tensor& changed = target ? batch.targets : batch.tokens;
      changed = changed.clone();
      changed.select(0, 1).select(0, 5).fill_(token);
      TestPipeline pipeline(spec, {8}, batch, {2});
      try {
        (void)pipeline.step();
        ADD_FAILURE() << "token " << token << " was taken";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kData);
        const std::string text = error.what();
        const std::string part =
            "token " + std::to_string(token) + " is outside the vocabulary of 101";
        EXPECT_NE(text.find(part), std::string::npos) << text;
      }
    }
  }
}

TEST(TorchStage, RefusesASequenceLongerThanItsPositions) {
  const ModelSpec spec = tiny_spec();
  ModelSpec longer = spec;
  longer.sequence = 20;
  TestPipeline pipeline(spec, {8}, make_batch(longer, 1), {1});
  EXPECT_THROW((void)pipeline.step(), Error);
}

TEST(TorchStage, NarrowTypesComeNearTheWideLossAndKeepWideGradients) {
  ModelSpec spec = tiny_spec();
  const Batch batch = make_batch(spec, 4);
  for (const double dropout : {0.0, 0.1}) {
    spec.dropout = dropout;
    spec.dtype = DType::kFloat64;
    TestPipeline wide(spec, {4, 4}, batch, {2, 2});
    const double loss = wide.step();
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      spec.dtype = dtype;
      TestPipeline narrow(spec, {4, 4}, batch, {2, 2});
      const double tolerance = dtype == DType::kFloat32 ? 1e-5 : 2e-2;
      EXPECT_NEAR(narrow.step(), loss, tolerance);
      for (const auto& [name, gradient] : narrow.gradients()) {
        EXPECT_EQ(gradient.scalar_type(), at::kFloat) << name;
        const at::Tensor expected = wide.gradients().at(name);
        const double scale = std::max(1e-3, expected.norm().item<double>());
        EXPECT_LE((gradient.to(at::kDouble) - expected).norm().item<double>(),
                  2.5 * tolerance * scale)
            << name;
      }
    }
  }
}

TEST(TorchStage, Bf16UsesNewValuesOnceTold) {
  ModelSpec spec = tiny_spec();
  spec.dtype = DType::kBFloat16;
  TestPipeline pipeline(spec, {8}, make_batch(spec, 2), {2});
  const double before = pipeline.step();
  {
    const at::NoGradGuard no_grad;
    at::Tensor values = pipeline.stores[0]->flats().front().values;
    values.sub_(pipeline.stores[0]->flats().front().gradients, 0.5);
  }
  pipeline.stores[0]->values_changed();
  EXPECT_LT(pipeline.step(), before - 0.01);
}

TEST(TorchStage, ThreadsMayRunTheirStagesAtTheSameTime) {
  const ModelSpec spec = tiny_spec();
  const Batch batch = make_batch(spec, 2);
  std::vector<double> losses(3);
  std::vector<std::thread> threads;
  for (double& loss : losses) {
    threads.emplace_back([&] {
      TestPipeline pipeline(spec, {4, 4}, batch, {1, 1});
      for (int step = 0; step < 3; ++step) loss = pipeline.step();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_EQ(losses[0], losses[2]);
}

}  // namespace
}  // namespace chimera
