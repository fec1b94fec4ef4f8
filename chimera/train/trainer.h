// Trainer: one rank of a training run. All ranks of a world make one and call the same functions in
// the same order; each blocks until the rank's part is done.
//
// Synchronous schedules: a step is the worker's row of the program, and at its end, over all ranks:
// the loss, the gradient norm over all stages with each parameter once, clipping, and AdamW.
// Nothing depends on the layout but speed and memory: sums are taken over micro-batches, replicas
// and parameters of one mean loss per token.
//
// Asynchronous schedules: a step is a part of the row (row_parts.h), each stage is stepped where
// the row says, and ranks are not at the same step at the same time. So that no one waits, the sums
// of a step are added up in the background and reported some steps later. With checkpoints such a
// run is a sequence of segments that each end with an empty pipeline.
//
// Throws Error on every rank with one text (worker.h).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "chimera/data/dataset.h"
#include "chimera/job/train_plan.h"
#include "chimera/model/safetensors.h"
#include "chimera/model/store.h"
#include "chimera/model/torch_stage.h"
#include "chimera/runtime/worker.h"
#include "chimera/train/adamw.h"
#include "chimera/train/row_parts.h"
#include "chimera/transport/transport.h"

namespace chimera {

// Of one step. The same on every rank but for the timeline, which only rank 0 has.
struct StepReport {
  std::int64_t step = 0;     // from 0
  double loss = 0;           // mean per token of the mini-batch, before the update
  double gradient_norm = 0;  // before clipping
  double learning_rate = 0;
  bool stop = false;       // some rank asked for it
  Timeline timeline = {};  // one row a rank; from the first start of any
  double origin_s = 0;     // that start, in seconds of the steady clock
  double seconds = 0;      // on this rank, from the end of the step before
};

// Those of a step that are known now: none or one, or at the end of a run several.
using StepReports = std::vector<StepReport>;

struct TrainerOptions {
  at::Device device = at::kCPU;
  double clock_offset_s = 0;  // of this rank's clock, ahead of rank 0's (clock_offset.h)
  std::function<void(const Action&)> on_action = {};  // before each (WorkerOptions)
};

// What training changes of one parameter. The tensors are the trainer's own: views, which later
// steps change, and which may be written to before Trainer::resume.
struct ParameterState {
  const ParameterSpec* spec;
  at::Tensor value, first, second;  // and the moments of AdamW
};

class Trainer {
 public:
  // Plan, dataset and transport outlive the trainer and are the same on all ranks; the dataset is
  // read on ranks that hold the first or the last stage.
  Trainer(const TrainPlan& plan, const Dataset& dataset, Transport& transport,
          TrainerOptions options = {});
  ~Trainer();

  // `wants_stop` is asked when the rank's work of the step is done: whether the run should end
  // after it (in an asynchronous run: after what is under way). One rank that says so is enough.
  StepReports step(const std::function<bool()>& wants_stop = {});

  // Whether all steps of the run were done, or as many as were wanted.
  [[nodiscard]] bool done() const { return step_ == end_; }

  [[nodiscard]] std::int64_t steps_done() const { return step_; }

  // Whether no micro-batch is under way: always between synchronous steps. Only then is state()
  // all that there is to go on from.
  [[nodiscard]] bool drained() const { return step_ == segment_end_; }

  // Of all parameters that this rank holds, by name.
  [[nodiscard]] std::vector<ParameterState> state() const;

  // Goes on after `step` steps, whose outcome was written to state(). Before the first step.
  void resume(std::int64_t step);

  // Mean loss per token over samples [first, first + batch) of the dataset, without dropout.
  // Changes nothing that training sees. Only when drained().
  [[nodiscard]] double evaluate(std::int64_t first_sample);

  // Compares the weights of all replicas bit by bit; throws Error (kCompute) that names the stages
  // and ranks that differ.
  void check_replicas();

  // All parameters by global name on rank 0; empty elsewhere.
  [[nodiscard]] NamedTensors gather_weights();

  [[nodiscard]] const ParameterStore& store() const { return store_; }
  [[nodiscard]] int peak_stash() const { return worker_->peak_stash(); }

 private:
  struct Sums;
  // A step whose sums are on their way.
  struct Pending;

  [[nodiscard]] Stages make_stages();
  [[nodiscard]] Batch batch_of(int micro, bool reads_tokens) const;
  void begin_segment();
  [[nodiscard]] Row part_of(int worker) const;
  void begin_pass(bool training, std::int64_t first_sample);
  void step_weights(const Action& action);
  void step_all();
  void step_stage(int stage);
  void begin_report();
  [[nodiscard]] StepReport finish_report();
  void check_finite(const StepReport& report) const;
  void clip(double norm);
  void add_squares(Sums& sums, std::optional<int> stage) const;
  [[nodiscard]] bool speaks_for(const ParameterSpec& parameter) const;
  [[nodiscard]] Timeline gather_timeline(std::vector<Interval> own);
  void send_intervals(const std::vector<Interval>& intervals);
  [[nodiscard]] std::vector<Interval> recv_intervals(int rank);

  const TrainPlan& plan_;
  const Dataset& dataset_;
  Transport& transport_;
  double clock_offset_s_;
  Seat seat_;
  ParameterStore store_;
  std::vector<TorchStage*> stages_;  // in the worker
  std::unique_ptr<Worker> worker_;
  RowParts parts_;
  std::unique_ptr<AdamW> optimizer_;
  std::vector<int> everyone_;
  std::int64_t lag_;  // steps from the end of a step to its report
  std::int64_t step_ = 0, end_;
  // Of what is run from an empty pipeline to an empty one: a step, or several of an asynchronous
  // run.
  std::int64_t segment_begin_ = 0, segment_end_ = 0;
  double step_began_s_ = 0;
  std::int64_t first_sample_ = 0;  // of the pass under way
  std::function<bool()> wants_stop_;
  std::deque<Pending> pending_;  // oldest first
};

}  // namespace chimera
