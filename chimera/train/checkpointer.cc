#include "chimera/train/checkpointer.h"

#include <torch/torch.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <utility>
#include <vector>

#include "chimera/base/background.h"
#include "chimera/base/check.h"
#include "chimera/base/crc32c.h"
#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/job/memory_plan.h"
#include "chimera/model/tensor.h"
#include "chimera/runtime/tags.h"
#include "chimera/runtime/told.h"
#include "chimera/storage/step_folder.h"
#include "chimera/storage/tensor_file.h"
#include "chimera/train/checkpoint_names.h"
#include "chimera/train/together.h"

namespace chimera {
namespace {

// What a rank has to write: its parameters' bytes, copied or as they are.
struct Part {
  std::vector<at::Tensor> tensors;  // keep the bytes alive
  std::vector<TensorBytes> bytes;

  void add(const std::string& name, const at::Tensor& tensor, bool copied) {
    at::Tensor dense = tensor.cpu().contiguous();
    if (copied && dense.is_alias_of(tensor)) dense = dense.clone();
    bytes.push_back({name,
                     from_torch(dense.scalar_type()),
                     dense.sizes().vec(),
                     {static_cast<const std::byte*>(dense.const_data_ptr()), dense.nbytes()}});
    tensors.push_back(std::move(dense));
  }
};

// Value and two moments.
constexpr int kTensorsOfParameter = 3;

// Bytes that each worker of the first group, whose ranks own the parameters, would copy.
std::vector<double> copied_bytes(const TrainPlan& plan) {
  std::vector<double> bytes(static_cast<std::size_t>(plan.workers()), 0.0);
  const auto size = static_cast<double>(info(plan.config.model.parameter_dtype()).bytes);
  for (const ParameterSpec& parameter : plan.parameters) {
    bytes[static_cast<std::size_t>(plan.owner(parameter))] +=
        kTensorsOfParameter * size * static_cast<double>(parameter.elements());
  }
  return bytes;
}

// Decided on all ranks alike, for all: where one waits, the others wait for it.
bool must_wait(const TrainPlan& plan) {
  const std::vector<double> limits = memory_limits(plan.config.pipeline.memory, plan.workers());
  const std::vector<double> copies = copied_bytes(plan);
  for (std::size_t worker = 0; worker < limits.size(); ++worker) {
    if (plan.peak_bytes[worker] + copies[worker] > limits[worker]) return true;
  }
  return false;
}

// So that two runs that meet in a folder do not write to the same file.
std::string random_token() {
  std::random_device random;
  return crc_text(random());
}

std::string visible_probe(const std::string& folder, const std::string& token) {
  return path_in(folder, cat("probe.tmp-", token));
}

[[noreturn]] void refuse_folder(const std::string& folder, std::int64_t step,
                                const std::string& why) {
  throw Error(ErrorCode::kUsage,
              cat("train.checkpoint_folder '", folder, "' has ", step_name(step), why,
                  "; go on from it with --resume latest, or name another folder"));
}

bool is_in(const CheckpointSource& source, const std::string& folder) {
  std::error_code error;
  return std::filesystem::equivalent(folder_of(source.path), folder, error);
}

// What is newer than where the run begins would be taken for its newest.
void clear_newer(Disk& disk, const std::string& folder,
                 const std::optional<CheckpointSource>& source, std::int64_t begin) {
  const bool own = source && is_in(*source, folder);
  for (const std::int64_t step : list_steps(disk, folder)) {
    const std::string path = path_in(folder, step_name(step));
    if (own && step <= begin) continue;
    bool whole = true;
    try {
      (void)open_checkpoint(disk, path);
    } catch (const Error&) {
      whole = false;
    }
    if (whole && !own) refuse_folder(folder, step, ", of another run");
    if (whole && !source->newest) {
      refuse_folder(folder, step, cat(", which is newer than step ", begin, " of ", source->path));
    }
    const std::string aside = path + ".damaged";
    if (disk.exists(aside)) remove_all(disk, aside);
    disk.rename(path, aside);
  }
}

}  // namespace

// One checkpoint on its way to the disk.
struct Checkpointer::Job {
  std::int64_t step = 0;
  std::string temporary;
  std::optional<Part> part;  // until it is written
  FileDigest digest;
  std::unique_ptr<Background> writer;
  // Bytes and checksum of each rank's file, once all were written: a sum in which every rank has
  // its own places.
  std::vector<std::int64_t> digests;
  std::unique_ptr<Reduction> reduction;
  std::unique_ptr<Background> committer;  // on rank 0
};

Checkpointer::Checkpointer(const TrainPlan& plan, Transport& transport, Trainer& trainer,
                           CheckpointOptions options, const std::optional<CheckpointSource>& source)
    : plan_(plan),
      transport_(transport),
      trainer_(trainer),
      options_(std::move(options)),
      folder_(plan.config.train.checkpoint_folder),
      foreground_(must_wait(plan)) {
  if (source) last_ = trainer.steps_done();
  prepare(source);
}

Checkpointer::~Checkpointer() = default;

Disk& Checkpointer::disk() { return options_.disk != nullptr ? *options_.disk : real_disk_; }

// ---- before the run

void Checkpointer::prepare(const std::optional<CheckpointSource>& source) {
  if (transport_.rank() == 0) {
    disk().make_folder(folder_);
    if (options_.disk == nullptr) lock_ = FolderLock(folder_);
    prepare_checkpoint_folder(disk(), folder_);
    clear_newer(disk(), folder_, source, trainer_.steps_done());
    remove_temporaries(disk(), folder_);
    token_ = random_token();
    write_synced(disk(), visible_probe(folder_, token_), token_);
  }
  token_ = told_by_rank_0(transport_, kCheckpointTag, token_);
  if (!disk().exists(visible_probe(folder_, token_))) {
    throw Error(ErrorCode::kIo,
                cat("rank ", transport_.rank(), " does not see what rank 0 writes to '", folder_,
                    "'; train.checkpoint_folder must be on a disk that all machines share"));
  }
  meet(transport_);
  if (transport_.rank() == 0) disk().remove(visible_probe(folder_, token_));
}

// ---- on the way

void Checkpointer::after_step() {
  const std::int64_t step = trainer_.steps_done();
  const bool due = step % plan_.config.train.checkpoint_every == 0;
  if (due) {
    complete();
    begin();
    if (foreground_) complete();
  } else {
    (void)advance(0);
  }
}

void Checkpointer::finish() {
  complete();
  if (trainer_.steps_done() == last_) return;
  begin();
  complete();
}

void Checkpointer::complete() {
  wait_for_all(transport_, [this](double wait_s) { return advance(wait_s); });
}

void Checkpointer::begin() {
  CHECK(!job_ && trainer_.drained());
  last_ = trainer_.steps_done();
  job_ = make_job();
  if (job_->part->bytes.empty()) return;
  Job& job = *job_;
  const std::string path = path_in(job.temporary, part_name(transport_.rank()));
  job.writer = std::make_unique<Background>(
      cat("writing '", path, "'"), plan_.config.limits.startup_seconds,
      [this, &job, path](const Background::Progress& progress) {
        disk().make_folder(job.temporary);
        job.digest = write_tensor_file(disk(), path, job.part->bytes, {{"format", "pt"}},
                                       [&](std::uint64_t) { progress(); });
        disk().sync_folder(job.temporary);
      });
}

std::unique_ptr<Checkpointer::Job> Checkpointer::make_job() {
  auto job = std::make_unique<Job>();
  job->step = trainer_.steps_done();
  job->temporary = temporary_step(folder_, job->step, token_);
  Part& part = job->part.emplace();
  for (const ParameterState& state : trainer_.state()) {
    if (plan_.owner(*state.spec) != transport_.rank()) continue;
    const std::string& name = state.spec->name;
    part.add(name, state.value, !foreground_);
    part.add(first_moment(name), state.first, !foreground_);
    part.add(second_moment(name), state.second, !foreground_);
  }
  return job;
}

// Looks at work on the disk; what went wrong with it names the rank, whose machine is to be looked
// at.
bool Checkpointer::is_done(Background& work, double wait_s) const {
  try {
    return work.wait(wait_s);
  } catch (const Error& error) {
    const std::string why = cat("rank ", transport_.rank(), ", checkpoint of step ", last_, ": ",
                                error.what(), "; earlier checkpoints are as they were");
    // Now, where a thread hangs on the disk: on the way out it is waited for.
    if (error.code() == ErrorCode::kTimeout) transport_.abort(why);
    throw Error(error.code(), why);
  }
}

// Each rank goes through the same: its file is written; all know that all are; rank 0 makes them a
// checkpoint. True when there is nothing more to do here.
bool Checkpointer::advance(double wait_s) {
  if (!job_) return true;
  Job& job = *job_;
  if (job.writer && !is_done(*job.writer, wait_s)) return false;
  job.writer.reset();
  job.part.reset();
  if (!job.reduction) {
    const auto own = static_cast<std::size_t>(transport_.rank());
    const std::vector<int> everyone = all_ranks(transport_);
    job.digests.assign(2 * everyone.size(), 0);
    job.digests[2 * own] = static_cast<std::int64_t>(job.digest.bytes);
    job.digests[2 * own + 1] = job.digest.crc32c;
    job.reduction = transport_.all_reduce_sum(
        {DType::kInt64, reinterpret_cast<std::byte*>(job.digests.data()), job.digests.size()},
        everyone, kCheckpointFilesTag);
  }
  // Never waited for: how long the others take is their own affair.
  if (!job.committer && !job.reduction->wait(0)) return false;
  if (transport_.rank() == 0) {
    if (!job.committer) {
      job.committer = std::make_unique<Background>(
          cat("finishing '", job.temporary, "'"), plan_.config.limits.startup_seconds,
          [this, manifest = manifest(job),
           temporary = job.temporary](const Background::Progress& progress) mutable {
            commit(manifest, temporary);
            progress();
          });
    }
    if (!is_done(*job.committer, wait_s)) return false;
  }
  job_.reset();
  return true;
}

Manifest Checkpointer::manifest(const Job& job) const {
  const Config& config = plan_.config;
  Manifest manifest{.program = options_.program,
                    .step = job.step,
                    .samples = job.step * config.train.batch,
                    .seed = config.train.seed,
                    .data = options_.data,
                    .model = {},
                    .config = print(config),
                    .files = {},
                    .tensors = {}};
  for (const KeyValue& key : values(config)) {
    if (key.section == "model") manifest.model[std::string(key.name)] = key.value;
  }
  for (const ParameterSpec& parameter : plan_.parameters) {
    const int owner = plan_.owner(parameter);
    const auto at = 2 * static_cast<std::size_t>(owner);
    const std::string file = part_name(owner);
    manifest.files[file] = {static_cast<std::uint64_t>(job.digests[at]),
                            static_cast<std::uint32_t>(job.digests[at + 1])};
    const TensorPlace place{file, config.model.parameter_dtype(), parameter.shape};
    manifest.tensors[parameter.name] = place;
    manifest.tensors[first_moment(parameter.name)] = place;
    manifest.tensors[second_moment(parameter.name)] = place;
  }
  manifest.files[kCheckpointConfig] = {manifest.config.size(), crc32c(manifest.config)};
  return manifest;
}

void Checkpointer::commit(const Manifest& manifest, const std::string& temporary) {
  disk().make_folder(temporary);
  write_synced(disk(), path_in(temporary, kCheckpointConfig), manifest.config);
  commit_checkpoint(disk(), folder_, temporary, manifest);
  remove_older(disk(), folder_, plan_.config.train.checkpoint_keep);
}

}  // namespace chimera
