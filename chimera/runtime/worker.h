// Worker: executes one row of a program, with real stages and a real transport.
//
// It knows no tensors (stage.h) and no optimizer (the `step` callback); it moves messages between
// stages, reduces gradients over stage groups while other work goes on, and measures. Used by one
// thread. Whatever a stage or the transport throws ends the step on every rank: the first error is
// told to all through Transport::abort with the rank, stage, micro-batch and action in front.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "chimera/base/error.h"
#include "chimera/runtime/stage.h"
#include "chimera/schedule/recompute.h"
#include "chimera/schedule/run.h"
#include "chimera/schedule/schedule.h"
#include "chimera/simulate/timeline.h"
#include "chimera/transport/transport.h"

namespace chimera {

// Where a worker stands among the ranks: rank = group * workers + worker.
struct Seat {
  int groups = 1;  // W
  int group = 0;
  int worker = 0;
};

using Stages = std::map<int, std::unique_ptr<Stage>>;

struct WorkerOptions {
  // Called before each action of a row: where a watch learns what the rank is at, and where tests
  // put faults. What it throws ends the run as what the action throws.
  std::function<void(const Action&)> on_action = {};
  // The optimizer's step, of one stage or of all that the worker holds (Action::stage), its
  // gradients reduced; may communicate.
  std::function<void(const Action&)> step = {};
  // Compares the stashes held with what verify proved, after every forward. The bound is a
  // property of the program, so more is a bug: it ends the run.
  int stash_bound = 0;  // 0: none
  // A stage's gradients are reduced in parts of at most so many bytes: the first can be summed
  // while the last are still on their way, and none holds a transport up for long.
  std::size_t bucket_bytes = std::size_t{16} << 20;
  // Begins sums over this rank alone too, which change nothing: where they are given a cost
  // (emulated_links.h), for members that are not there.
  bool sums_alone = false;
};

class Worker final : private Executor {
 public:
  // `stages` are those that the placement puts on this worker. `program` and `transport` outlive
  // the worker. Throws Error (kUsage) for actions that the runtime cannot execute.
  Worker(const Program& program, Seat seat, Stages stages, Transport& transport,
         WorkerOptions options);

  // Runs the row once and returns when each action was done, in seconds of the steady clock.
  // Throws Error; then the worker is of no further use.
  std::vector<Interval> run_row() { return run_row(row_); }

  // Runs some other row on the same stages: part of the worker's own, as evaluation does.
  std::vector<Interval> run_row(const Row& row);

  // The all-reduces that ended since the last call, each from its begin here to the end of the sum,
  // which may lie before its wait.
  [[nodiscard]] std::vector<Interval> take_reductions() { return std::exchange(reduced_, {}); }

  // Most micro-batches stashed at a time since construction.
  [[nodiscard]] int peak_stash() const { return peak_stash_; }

 private:
  // A result on its way: an activation or gradient, the stage that takes it, the micro-batch.
  using Parcel = std::tuple<bool, int, int>;

  // A bucket of a stage's gradients, and who holds it.
  struct Reduced {
    Buffer buffer;
    std::vector<int> members;  // ranks
    Tag tag;
    std::unique_ptr<Reduction> reduction;  // while under way
  };

  void forward(const Action& action) override;
  void backward(const Action& action) override;
  void recompute(const Action& action) override;
  void send(const Action& action) override;
  void recv(const Action& action) override;
  void reduce_begin(const Action& action) override;
  void reduce_wait(const Action& action) override;
  void stash_weights(const Action& action) override;
  void free_weights(const Action& action) override;
  void step(const Action& action) override;

  Stage& stage(const Action& action) { return *stages_.at(action.stage); }
  [[nodiscard]] int peer_rank(const Action& action) const;
  [[nodiscard]] Message take(const Parcel& parcel);
  void refuse_unknown_actions() const;
  void prepare_reductions();
  void add_buckets(const Gradient& gradient, bool is_new, int& index);
  [[nodiscard]] std::vector<int> members(const std::vector<int>& stages) const;
  [[nodiscard]] int last_begun(const std::vector<int>& stages) const;
  void count_stash();
  [[noreturn]] void fail(const Action& action, ErrorCode code, const std::string& why);

  const Program& program_;
  const Row& row_;
  Seat seat_;
  Stages stages_;
  Transport& transport_;
  WorkerOptions options_;
  // Results until the action that takes them: the next stage here, or the send to its worker.
  std::map<Parcel, Message> mailbox_;
  std::map<int, std::vector<Reduced>> reductions_;  // by the stage whose begin starts them
  std::map<int, double> begun_s_;                   // by stage, while its reduction is under way
  std::vector<Interval> reduced_;
  Recomputed recomputed_;
  int peak_stash_ = 0;
};

}  // namespace chimera
