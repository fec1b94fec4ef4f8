// Trainer: one rank of a training run. All ranks of a world make one and call the same functions in
// the same order; each blocks until the rank's part is done.
//
// A step is the worker's row of the program, and at its end, over all ranks: the loss, the gradient
// norm over all stages with each parameter once, clipping, and AdamW. Nothing depends on the layout
// but speed and memory: sums are taken over micro-batches, replicas and parameters of one mean loss
// per token. Throws Error on every rank with one text (worker.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "chimera/data/dataset.h"
#include "chimera/model/safetensors.h"
#include "chimera/model/store.h"
#include "chimera/model/torch_stage.h"
#include "chimera/runtime/worker.h"
#include "chimera/train/adamw.h"
#include "chimera/train/plan.h"
#include "chimera/transport/transport.h"

namespace chimera {

// Of one step. The same on every rank but for the timeline, which only rank 0 has.
struct StepReport {
  std::int64_t step = 0;     // from 0
  double loss = 0;           // mean per token of the mini-batch, before the update
  double gradient_norm = 0;  // before clipping
  double learning_rate = 0;
  bool stop = false;  // some rank asked for it
  Timeline timeline;  // one row a rank; from the first start of any
};

class Trainer {
 public:
  // Plan, dataset and transport outlive the trainer and are the same on all ranks.
  Trainer(const TrainPlan& plan, const Dataset& dataset, Transport& transport,
          at::Device device = at::kCPU);
  ~Trainer();

  // `wants_stop` is asked when the rank's work of the step is done: whether the run should end after
  // it. One rank that says so is enough.
  StepReport step(const std::function<bool()>& wants_stop = {});

  // Mean loss per token over samples [first, first + batch) of the dataset, without dropout.
  // Changes nothing that training sees.
  [[nodiscard]] double evaluate(std::int64_t first_sample);

  // All parameters by global name on rank 0; empty elsewhere.
  [[nodiscard]] NamedTensors gather_weights();

  [[nodiscard]] const ParameterStore& store() const { return store_; }
  [[nodiscard]] int peak_stash() const { return worker_->peak_stash(); }

 private:
  struct Sums;

  [[nodiscard]] Stages make_stages();
  [[nodiscard]] Batch batch_of(int micro) const;
  void begin_pass(bool training, std::int64_t first_sample);
  void finish_step();
  void clip(double norm);
  void add_losses(Sums& sums) const;
  void add_squares(Sums& sums) const;
  void reduce(Sums& sums);
  [[nodiscard]] bool speaks_for(const ParameterSpec& parameter) const;
  [[nodiscard]] Timeline gather_timeline(std::vector<Interval> own);

  const TrainPlan& plan_;
  const Dataset& dataset_;
  Transport& transport_;
  Seat seat_;
  ParameterStore store_;
  std::vector<TorchStage*> stages_;  // in the worker
  std::unique_ptr<Worker> worker_;
  Row evaluate_row_;
  std::unique_ptr<AdamW> optimizer_;
  std::vector<int> everyone_;
  std::int64_t step_ = 0;
  std::int64_t first_sample_ = 0;  // of the pass under way
  std::function<bool()> wants_stop_;
  StepReport report_;
};

}  // namespace chimera
