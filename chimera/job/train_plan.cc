#include "chimera/job/train_plan.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "chimera/base/check.h"
#include "chimera/base/error.h"
#include "chimera/base/number.h"
#include "chimera/base/text.h"
#include "chimera/generate/generate.h"
#include "chimera/job/memory_plan.h"
#include "chimera/job/vocabulary.h"
#include "chimera/schedule/lower.h"
#include "chimera/schedule/recompute.h"
#include "chimera/schedule/schedule_file.h"
#include "chimera/shape/split.h"

namespace chimera {
namespace {

// More than any machine has, and few enough that the product does not overflow.
constexpr std::int64_t kMaxRanks = 4096;

void check_pipeline(const PipelineConfig& pipeline) {
  constexpr double kLeastMb = 1e-4, kMostMb = 1e6;
  if (pipeline.bucket_mb < kLeastMb || pipeline.bucket_mb > kMostMb) {
    throw Error(ErrorCode::kUsage, cat("pipeline.bucket_mb is ", pipeline.bucket_mb,
                                       "; expected megabytes from ", kLeastMb, " to ", kMostMb));
  }
  constexpr std::array<std::string_view, 3> kTransports = {"auto", "local", "mpi"};
  if (std::find(kTransports.begin(), kTransports.end(), pipeline.transport) == kTransports.end()) {
    throw Error(ErrorCode::kUsage, unknown_word("transport", pipeline.transport, kTransports));
  }
  const std::int64_t ranks = std::int64_t{pipeline.stages} * pipeline.width;
  if (ranks > kMaxRanks) {
    throw Error(ErrorCode::kUsage,
                cat("pipeline.stages x pipeline.width is ", pipeline.stages, " x ", pipeline.width,
                    " = ", ranks, " workers; expected at most ", kMaxRanks));
  }
}

[[noreturn]] void refuse(const std::string& why) { throw Error(ErrorCode::kUsage, why); }

void check_checkpoints(const TrainConfig& train) {
  if (train.checkpoint_every > 0 && train.checkpoint_folder.empty()) {
    refuse(cat("train.checkpoint_every is ", train.checkpoint_every,
               ", but train.checkpoint_folder is empty; name a folder"));
  }
}

// Of an asynchronous program: the run, or from one checkpoint, which drains it, to the next.
std::int64_t program_steps(const TrainConfig& train) {
  return train.checkpoint_every > 0 ? std::min(train.steps, train.checkpoint_every) : train.steps;
}

// What a file says must fit the run; what it says of the order is verified as any schedule.
Schedule read_schedule_file(const std::string& path, const Config& config, int micros) {
  const PipelineConfig& pipeline = config.pipeline;
  Schedule schedule = read_schedule(path);
  if (schedule.stages() != pipeline.stages) {
    refuse(cat("the schedule file '", path, "' has ", schedule.stages(),
               " stages, but pipeline.stages is ", pipeline.stages, "; make them the same"));
  }
  const std::int64_t wanted =
      has_steps(schedule) ? micros * program_steps(config.train) : std::int64_t{micros};
  if (schedule.micros != wanted) {
    refuse(cat("the schedule file '", path, "' has ", schedule.micros,
               " micro-batches, but the run has ", wanted,
               has_steps(schedule)
                   ? ", of all its steps (up to a checkpoint) since the schedule says "
                     "its steps itself"
                   : " in a step (train.batch / pipeline.width / "
                     "pipeline.micro_batch, rounded up)",
               "; change one of these numbers"));
  }
  return schedule;
}

// `steps`: of an asynchronous schedule.
Schedule make_schedule(const Config& config, int micros, std::int64_t steps) {
  const PipelineConfig& pipeline = config.pipeline;
  Spec spec{.stages = pipeline.stages, .micros = micros, .fused = pipeline.fused};
  if (pipeline.pairs != 1) spec.pairs = pipeline.pairs;
  const Method way = method(pipeline.method);
  if (way != Method::kDirect) spec.method = way;
  if (generator(pipeline.schedule).asynchronous) {
    const std::int64_t most = kMaxCells / std::max(1, pipeline.stages) / micros;
    if (steps > most) {
      refuse(cat("train.steps is ", steps, ", but a run of ", pipeline.schedule,
                 " is one program of at most ", most, " steps with ", pipeline.stages,
                 " stages and ", micros,
                 " micro-batches a step; take fewer steps, checkpoints on the way "
                 "(train.checkpoint_every), or a synchronous schedule"));
    }
    spec.steps = static_cast<int>(steps);
  }
  return generate(pipeline.schedule, spec);
}

// With weights that change on the way there is no moment at which a step is done everywhere.
void check_asynchronous(const Config& config, int micros) {
  const std::string& name = config.pipeline.schedule;
  if (config.train.clip != 0) {
    refuse(cat("train.clip is ", config.train.clip, ", but ", name,
               " steps each stage before the gradient norm over all stages is known; set "
               "train.clip=0, or use a synchronous schedule"));
  }
  if (config.model.tied) {
    refuse(cat("model.tied is true, but ", name,
               " steps the first and the last stage at different times, so they cannot share "
               "weights; set model.tied=false, or use a synchronous schedule"));
  }
  if (name == "pipedream" && micros != 1) {
    refuse(cat("pipedream steps after every micro-batch, but train.batch ", config.train.batch,
               " makes ", micros,
               " of them a step; make train.batch pipeline.micro_batch x "
               "pipeline.width, ",
               config.pipeline.micro_batch, " x ", config.pipeline.width,
               ", or use pipedream-2bw"));
  }
}

// The trainer counts in steps of `micros` micro-batches: each stage steps once at the end of each,
// and no action is of two.
void check_steps(const Schedule& schedule, int micros) {
  std::map<std::pair<std::size_t, int>, int> steps;  // by worker and stage
  for (std::size_t worker = 0; worker < schedule.rows.size(); ++worker) {
    for (const int stage : schedule.placement.stages_of(static_cast<int>(worker))) {
      steps[{worker, stage}] = 0;
    }
    for (const Action& action : schedule.rows[worker]) {
      const bool is_step = action.op == Op::kStep;
      if (is_step) ++steps[{worker, action.stage}];
      const int last = action.micro + action.span - 1;
      if (is_step ? (last + 1) % micros == 0 : action.micro / micros == last / micros) continue;
      refuse(cat(
          "the schedule ", schedule.name, " has ", to_string(action), " on worker ", worker,
          ", but a step of this run has ", micros, " micro-batches; ",
          is_step ? "expected steps after the last of each" : "expected actions within one step"));
    }
  }
  for (const auto& [key, count] : steps) {
    if (count == schedule.micros / micros) continue;
    refuse(cat("the schedule ", schedule.name, " has ", count, " steps of stage ", key.second,
               " on worker ", key.first, "; expected ", schedule.micros / micros, ", one for each ",
               micros, " micro-batches"));
  }
}

// How many blocks of each stage are recomputed.
std::vector<int> parse_recompute(const std::string& text, const std::vector<int>& split) {
  // "auto" begins with none.
  if (text == "none" || text == "auto") return std::vector<int>(split.size(), 0);
  if (text == "all") return split;
  std::vector<int> blocks;
  const auto expected = [&] {
    return cat("pipeline.recompute is '", text, "'; expected none, all, auto, or for each of the ",
               split.size(), " stages how many of its blocks (", join(split, ","),
               ") are recomputed, as \"", join(split, ","), "\"");
  };
  for (const std::string_view word : chimera::split(text, ',')) {
    const auto value = parse_number<int>(word);
    if (!value || *value < 0 || blocks.size() == split.size() || *value > split[blocks.size()]) {
      refuse(expected());
    }
    blocks.push_back(*value);
  }
  if (blocks.size() != split.size()) refuse(expected());
  return blocks;
}

// A schedule file may have recomputes of its own: of whole stages. Empty: none.
std::vector<int> own_recompute(const Schedule& schedule, const std::vector<int>& split) {
  std::vector<int> blocks(split.size(), 0);
  for (const Row& row : schedule.rows) {
    for (const Action& action : row) {
      if (action.op != Op::kRecompute) continue;
      const auto stage = static_cast<std::size_t>(action.stage);
      blocks[stage] = split[stage];
    }
  }
  return blocks == std::vector<int>(split.size(), 0) ? std::vector<int>() : blocks;
}

Schedule with_blocks_recomputed(Schedule schedule, const std::vector<int>& blocks) {
  std::vector<bool> stages;
  for (const int count : blocks) stages.push_back(count > 0);
  return with_recompute(std::move(schedule), stages);
}

std::vector<int> make_split(const Config& config) {
  if (config.pipeline.split.empty()) return balanced_split(config.model, config.pipeline.stages);
  return parse_split(config.pipeline.split, config.model.layers, config.pipeline.stages);
}

// In order of layers, each once, with the stages that use it.
std::vector<ParameterSpec> all_parameters(const ModelSpec& model, const std::vector<int>& split) {
  std::vector<ParameterSpec> all;
  std::set<std::string> seen;
  for (int stage = 0; stage < std::ssize(split); ++stage) {
    for (ParameterSpec& parameter : stage_parameters(model, split, stage)) {
      if (seen.insert(parameter.name).second) all.push_back(std::move(parameter));
    }
  }
  return all;
}

int largest_micro_batch(const Cut& cut) {
  int largest = 0;
  for (const auto& group : cut.groups) {
    for (const MicroBatch& micro : group) largest = std::max(largest, micro.count);
  }
  return largest;
}

void check_memory(const Config& config, const TrainPlan& plan, const std::vector<double>& limits) {
  for (std::size_t worker = 0; worker < limits.size(); ++worker) {
    if (plan.peak_bytes[worker] <= limits[worker]) continue;
    const bool may_recompute = plan.recomputed != plan.split && config.pipeline.recompute != "auto";
    refuse(cat("worker ", worker, " would hold ", bytes_text(plan.peak_bytes[worker]),
               " at its peak, of which ", bytes_text(plan.memory.weights[worker]), " weights, ",
               bytes_text(plan.memory.gradients[worker]), " gradients and ",
               bytes_text(plan.memory.optimizer[worker]),
               " optimizer state; pipeline.memory allows it ", bytes_text(limits[worker]),
               may_recompute ? "; try pipeline.recompute=auto, or "
                             : ", and recomputing more does not help; try ",
               "a smaller pipeline.micro_batch or more stages"));
  }
}

// Generators return what verifies; a file may not.
[[noreturn]] void refuse_program(const Config& config, const TrainPlan& plan) {
  const auto file = schedule_file(config.pipeline);
  CHECK(file.has_value());
  const Violation& first = plan.verdict.violations.front();
  refuse(cat("the schedule of '", *file, "' is wrong: ", rule_name(first.rule), " on worker ",
             first.worker, ": ", first.what, "; 'chimera verify' shows where"));
}

// From a configuration whose model is known to be right to the plan.
class Planner {
 public:
  explicit Planner(const Config& config)
      : config_(config), policy_(reduce_policy(config.pipeline.reduce)) {}

  TrainPlan plan() && {
    plan_.cut = cut(config_.train.batch, config_.pipeline.width, config_.pipeline.micro_batch);
    plan_.split = make_split(config_);
    if (const auto path = schedule_file(config_.pipeline)) {
      file_ = read_schedule_file(*path, config_, plan_.cut.micros);
    }
    choose(first_choice());
    const std::vector<double> limits = memory_limits(config_.pipeline.memory, plan_.workers());
    if (config_.pipeline.recompute == "auto" && !limits.empty()) choose(fitting(limits));
    plan_.memory = memory(plan_.recomputed);
    plan_.peak_bytes = predicted_peaks(config_, plan_.proved(), plan_.split, plan_.memory);
    check_memory(config_, plan_, limits);
    plan_.parameters = all_parameters(config_.model, plan_.split);
    plan_.config = config_;
    return std::move(plan_);
  }

 private:
  [[nodiscard]] Program program(const std::vector<int>& recomputed, std::int64_t steps) const {
    Schedule schedule = file_ ? *file_ : make_schedule(config_, plan_.cut.micros, steps);
    if (!has_own_recompute_) schedule = with_blocks_recomputed(std::move(schedule), recomputed);
    return lower(std::move(schedule), policy_);
  }

  std::vector<int> first_choice() {
    std::vector<int> asked = parse_recompute(config_.pipeline.recompute, plan_.split);
    if (!file_) return asked;
    std::vector<int> own = own_recompute(*file_, plan_.split);
    if (own.empty()) return asked;
    if (config_.pipeline.recompute != "none") {
      refuse(cat("pipeline.recompute is '", config_.pipeline.recompute,
                 "', but the schedule file has recomputes (R) of its own; set "
                 "pipeline.recompute=none"));
    }
    has_own_recompute_ = true;
    return own;
  }

  // How many steps are proved and timed in place of the run.
  [[nodiscard]] std::int64_t short_steps() const {
    return std::min<std::int64_t>(program_steps(config_.train), 4 + 2 * plan_.workers());
  }

  void choose(const std::vector<int>& recomputed) {
    plan_.recomputed = recomputed;
    plan_.program = program(recomputed, program_steps(config_.train));
    plan_.asynchronous = has_steps(plan_.program.source);
    if (plan_.asynchronous) {
      check_asynchronous(config_, plan_.cut.micros);
      check_steps(plan_.program.source, plan_.cut.micros);
    }
    if (plan_.asynchronous && !file_) {
      plan_.short_run = program(recomputed, short_steps());
    }
    plan_.verdict = verify(plan_.proved());
    if (!plan_.verdict.ok()) refuse_program(config_, plan_);
  }

  [[nodiscard]] MemoryModel memory(const std::vector<int>& recomputed) const {
    return memory_model(config_, plan_.program.source.placement, plan_.split, recomputed,
                        largest_micro_batch(plan_.cut));
  }

  [[nodiscard]] std::vector<double> peaks(const std::vector<int>& recomputed) const {
    const std::int64_t steps = plan_.short_run ? short_steps() : program_steps(config_.train);
    return predicted_peaks(config_, program(recomputed, steps), plan_.split, memory(recomputed));
  }

  [[nodiscard]] std::vector<int> fitting(const std::vector<double>& limits) const {
    return fitting_recompute(plan_.program.source.placement, plan_.split, limits,
                             [this](const std::vector<int>& blocks) { return peaks(blocks); });
  }

  const Config& config_;
  ReducePolicy policy_;
  std::optional<Schedule> file_;  // pipeline.schedule's, where it names one
  bool has_own_recompute_ = false;
  TrainPlan plan_;
};

}  // namespace

int TrainPlan::owner(const ParameterSpec& parameter) const {
  int lowest = workers();
  for (const int stage : parameter.stages) {
    lowest = std::min(lowest, program.source.placement.holders(stage).front());
  }
  return lowest;
}

TrainPlan make_plan(Config config, std::int64_t data_vocabulary) {
  config = with_vocabulary(std::move(config), data_vocabulary);
  check_pipeline(config.pipeline);
  check_checkpoints(config.train);
  return Planner(config).plan();
}

}  // namespace chimera
