#include "chimera/train/resume.h"

#include <torch/torch.h>

#include <limits>
#include <utility>
#include <vector>

#include "chimera/base/background.h"
#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/runtime/tags.h"
#include "chimera/runtime/told.h"
#include "chimera/storage/step_folder.h"
#include "chimera/train/checkpoint_file.h"
#include "chimera/train/checkpoint_names.h"
#include "chimera/train/compatible.h"
#include "chimera/train/together.h"

namespace chimera {
namespace {

constexpr const char* kLatest = "latest";

// A search for a checkpoint to go on from. Rank 0 leads; the others follow with what it tells.
class Search {
 public:
  Search(const TrainPlan& plan, Transport& transport, const CheckpointOptions& options)
      : plan_(plan), transport_(transport), options_(options) {}

  // The newest whole one; throws where there is none.
  CheckpointSource latest() {
    const std::string& folder = plan_.config.train.checkpoint_folder;
    std::vector<std::int64_t> steps;
    if (leads()) steps = list_steps(disk(), folder);
    for (std::size_t next = 0;; ++next) {
      const bool is_over = next >= steps.size();
      const std::string path = told_by_rank_0(
          transport_, kCheckpointTag, is_over ? "" : path_in(folder, step_name(steps[next])));
      // Rank 0 throws; what the others wait for next never comes.
      if (path.empty() && leads()) refuse_folder(folder, steps.size());
      const std::string damage = find_damage(path);
      if (damage.empty()) return {path, true};
      if (leads()) tell(cat(damage, "; passed over"));
    }
  }

  // That one; throws if it is damaged.
  CheckpointSource exactly(const std::string& path) {
    const std::string damage = find_damage(path);
    if (!damage.empty()) refuse_damaged(path, damage);
    return {path, false};
  }

  // Of what find_damage found whole.
  [[nodiscard]] const Manifest& manifest() const { return manifest_; }

 private:
  [[nodiscard]] bool leads() const { return transport_.rank() == 0; }
  [[nodiscard]] const Disk& disk() const {
    if (options_.disk != nullptr) return *options_.disk;
    return real_disk_;
  }
  void tell(const std::string& line) const {
    if (options_.tell) options_.tell(line);
  }

  // What is wrong, in the words of the first rank that found something; on every rank.
  std::string find_damage(const std::string& path) {
    std::string found;
    Background check(cat("checking '", path, "'"), plan_.config.limits.startup_seconds,
                     [&](const Background::Progress& progress) {
                       try {
                         check_share(path, progress);
                       } catch (const Error& error) {
                         // What cannot be read now may be whole: that ends the run.
                         if (error.code() != ErrorCode::kData) {
                           throw Error(error.code(),
                                       cat("rank ", transport_.rank(), ": ", error.what()));
                         }
                         found = error.what();
                       }
                     });
    wait_for_all(transport_, [&](double wait_s) { return check.wait(wait_s); });
    for (const std::string& theirs : told_to_rank_0(transport_, kCheckpointTag, found)) {
      if (found.empty()) found = theirs;
    }
    return told_by_rank_0(transport_, kCheckpointTag, found);
  }

  // Every rank looks at the manifest, and at the content of its share of the files.
  void check_share(const std::string& path, const Background::Progress& progress) {
    manifest_ = open_checkpoint(disk(), path);
    int index = 0;
    for (const auto& [name, digest] : manifest_.files) {
      if (index++ % transport_.size() != transport_.rank()) continue;
      check_file(disk(), path, manifest_, name, [&](std::uint64_t) { progress(); });
    }
  }

  [[noreturn]] static void refuse_folder(const std::string& folder, std::size_t damaged) {
    const std::string what = damaged == 0 ? std::string("no checkpoint")
                                          : cat("no checkpoint that is whole (", damaged,
                                                damaged == 1 ? " is" : " are", " damaged)");
    throw Error(ErrorCode::kData,
                cat("--resume latest: the folder '", folder, "' (train.checkpoint_folder) has ",
                    what, "; start without --resume, or name another folder"));
  }

  [[noreturn]] void refuse_damaged(const std::string& path, const std::string& damage) const {
    std::string other = "start without it, or name another";
    if (leads()) {  // the others do not look, and say what it found
      const std::string folder = folder_of(path);
      const auto step = newest_whole(disk(), folder, step_of(name_of(path)).value_or(kAny));
      if (step) other = cat("'", path_in(folder, step_name(*step)), "' is whole, go on from it");
    }
    throw Error(ErrorCode::kData,
                cat("--resume: ", damage, "; ", told_by_rank_0(transport_, kCheckpointTag, other)));
  }

  static constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();

  const TrainPlan& plan_;
  Transport& transport_;
  const CheckpointOptions& options_;
  RealDisk real_disk_;
  Manifest manifest_;
};

void fill(Trainer& trainer, CheckpointFile& file) {
  const at::NoGradGuard no_grad;
  for (ParameterState& state : trainer.state()) {
    const std::string& name = state.spec->name;
    const std::vector<std::int64_t>& shape = state.spec->shape;
    state.value.copy_(file.read(name, shape));
    state.first.copy_(file.read(first_moment(name), shape));
    state.second.copy_(file.read(second_moment(name), shape));
  }
  trainer.resume(file.manifest().step);
}

}  // namespace

CheckpointSource resume(const std::string& wanted, const TrainPlan& plan, Transport& transport,
                        Trainer& trainer, const CheckpointOptions& options) {
  Search search(plan, transport, options);
  const CheckpointSource source = wanted == kLatest ? search.latest() : search.exactly(wanted);
  CheckpointFile file(source.path, search.manifest());
  if (transport.rank() == 0) {
    const std::vector<std::string> notes =
        check_same_run(search.manifest(), source.path, plan.config, options.data);
    file.check(plan.parameters, plan.config.model.parameter_dtype());
    for (const std::string& note : notes) {
      if (options.tell) options.tell(note);
    }
  }
  meet(transport);
  fill(trainer, file);
  return source;
}

}  // namespace chimera
