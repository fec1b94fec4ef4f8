// Checkpointer: writes the state of a run to disk on the way, all ranks together.
//
// Each parameter is written by the rank that owns it (TrainPlan::owner), so processes write in
// parallel; rank 0 learns the size and checksum of each file, and makes the whole a checkpoint
// (storage/step_folder.h). Where memory allows, a rank copies its state and a thread writes the
// copy while training goes on: the end of that is looked for after each step, and waited for only
// before the next checkpoint and at the end of the run. Elsewhere all wait while it is written.
//
// All ranks make one and call the same functions in the same order; nothing is shared between ranks
// but the files and the transport. A failure to write throws Error (kIo) on the rank that has it,
// which ends the run; the checkpoints that are there stay as they are.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "chimera/base/background.h"
#include "chimera/job/train_plan.h"
#include "chimera/storage/disk.h"
#include "chimera/storage/folder_lock.h"
#include "chimera/storage/manifest.h"
#include "chimera/train/trainer.h"
#include "chimera/transport/transport.h"

namespace chimera {

// A checkpoint that a run goes on from.
struct CheckpointSource {
  std::string path;     // of the step's folder
  bool newest = false;  // what is newer beside it was found damaged
};

struct CheckpointOptions {
  std::string program = {};  // its version
  DataIdentity data = {};    // what the run reads
  // Called on rank 0, with lines for whoever started the run.
  std::function<void(const std::string& line)> tell = {};
  Disk* disk = nullptr;  // another than this machine's, for tests; outlives what uses it
};

class Checkpointer {
 public:
  // All outlive the checkpointer. `source` is what the trainer was resumed from, if it was. Throws
  // Error (kIo, kUsage) for a folder that cannot be written to, that not all ranks see, or that has
  // checkpoints of another run.
  Checkpointer(const TrainPlan& plan, Transport& transport, Trainer& trainer,
               CheckpointOptions options, const std::optional<CheckpointSource>& source = {});
  ~Checkpointer();

  // After each step: writes a checkpoint where one is due, looks after one under way.
  void after_step();

  // After the last step: writes a checkpoint of it if there is none, and returns when all is on
  // disk.
  void finish();

  // Whether training waits while a checkpoint is written.
  [[nodiscard]] bool in_foreground() const { return foreground_; }

 private:
  struct Job;

  void prepare(const std::optional<CheckpointSource>& source);
  void begin();
  [[nodiscard]] bool advance(double wait_s);
  [[nodiscard]] bool is_done(Background& work, double wait_s) const;
  void complete();
  [[nodiscard]] std::unique_ptr<Job> make_job();
  [[nodiscard]] Manifest manifest(const Job& job) const;
  void commit(const Manifest& manifest, const std::string& temporary);
  [[nodiscard]] Disk& disk();

  const TrainPlan& plan_;
  Transport& transport_;
  Trainer& trainer_;
  const CheckpointOptions options_;
  RealDisk real_disk_;
  const std::string folder_;
  FolderLock lock_;  // rank 0's
  const bool foreground_;
  std::string token_;         // of this run's temporary names; the same on all ranks
  std::int64_t last_ = -1;    // step of the last checkpoint begun, or resumed from
  std::unique_ptr<Job> job_;  // under way
};

}  // namespace chimera
