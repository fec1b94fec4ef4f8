// chimera profile: what a model's layers cost on this machine, or by others' measurements.
#include "chimera/plan/profile.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "chimera/base/error.h"
#include "chimera/base/file.h"
#include "chimera/base/number.h"
#include "chimera/base/text.h"
#include "chimera/cli/job_ranks.h"
#include "chimera/cli/mode.h"
#include "chimera/cli/overwriting.h"
#include "chimera/job/config.h"
#include "chimera/job/model_profile.h"
#include "chimera/job/vocabulary.h"
#include "chimera/plan/layer_csv.h"
#ifdef CHIMERA_TORCH
#include "chimera/cli/profile_measure.h"
#endif

namespace chimera {
namespace {

struct ProfileOptions {
  std::string config;
  std::vector<std::string> overrides;
  std::string micro_batches;
  int repeats = 20;
  std::optional<int> ranks;
  std::string csv;
  std::optional<double> message_bytes;
  int blocks = 1;
  std::string output;
};

constexpr int kMostRepeats = 10'000, kMostRanks = 256;

void check_range(std::string_view option, int value, int most) {
  if (value >= 1 && value <= most) return;
  throw Error(ErrorCode::kUsage,
              cat(option, " is ", value, "; expected a number from 1 to ", most));
}

// ---- others' measurements

Profile from_csv(const ProfileOptions& options) {
  if (!options.config.empty()) {
    throw Error(ErrorCode::kUsage, cat("'", options.config,
                                       "' and --from-csv both say what to profile; leave one out"));
  }
  if (!options.message_bytes || !(*options.message_bytes > 0 && *options.message_bytes < 1e15)) {
    throw Error(ErrorCode::kUsage,
                cat("--from-csv needs --message-bytes above 0: how many bytes one sequence's "
                    "message between stages has, which the table does not say"));
  }
  check_range("--blocks", options.blocks, kMostBlocks);
  Profile profile;
  profile.kinds = {parse_layer_csv(read_file(options.csv), options.csv, *options.message_bytes)};
  profile.device = std::filesystem::path(options.csv).stem().string();
  profile.source = cat("the table ", std::filesystem::path(options.csv).filename().string(),
                       ", messages of ", *options.message_bytes, " bytes a sequence");
  profile.blocks = {profile.kinds.front().name};
  return with_blocks(std::move(profile), options.blocks);
}

// ---- our own

#ifdef CHIMERA_TORCH
std::vector<int> sizes_of(const ProfileOptions& options, const Config& config) {
  if (options.micro_batches.empty()) return usual_sizes(config.pipeline.micro_batch);
  std::set<int> sizes;
  for (const std::string_view word : split(options.micro_batches, ',')) {
    const auto value = parse_number<int>(trim(word));
    if (!value || *value < 1) {
      throw Error(ErrorCode::kUsage,
                  cat("--micro-batches is '", options.micro_batches, "', in which '", word,
                      "' is no number from 1 up; expected sequences of a "
                      "micro-batch, as 1,2,4"));
    }
    sizes.insert(*value);
  }
  return {sizes.begin(), sizes.end()};
}

// As many as will train on this machine at once.
int usual_ranks(const Config& config) {
  return std::min({cores(), kMostRanks, config.pipeline.stages * config.pipeline.width});
}

// Nothing on other ranks than 0 of an MPI job.
std::optional<Profile> measured(const ProfileOptions& options) {
  if (options.config.empty()) {
    throw Error(ErrorCode::kUsage,
                "there is nothing to profile; expected a configuration file, or --from-csv with a "
                "table");
  }
  check_range("--repeats", options.repeats, kMostRepeats);
  const Config config = with_vocabulary(load_config(options.config, options.overrides));
  const auto job = job_of_many();
  const MeasureOptions measure{.sizes = sizes_of(options, config),
                               .repeats = options.repeats,
                               .ranks = job ? ranks_of_job(*job, options.ranks)
                                            : options.ranks.value_or(usual_ranks(config)),
                               .in_processes = job.has_value()};
  check_range("--ranks", measure.ranks, kMostRanks);
  if (!job || job->rank == 0) check_writable(options.output);
  return measure_profile(config, measure);
}
#else
std::optional<Profile> measured(const ProfileOptions&) {
  throw Error(ErrorCode::kUsage,
              "this chimera was built without libtorch and cannot measure layers; build the preset "
              "'release', or make a profile of a published table with --from-csv");
}
#endif

int run_profile(const ProfileOptions& options) {
  refuse_overwriting("--output", options.output, {options.config, options.csv});
  const auto profile = options.csv.empty() ? measured(options) : from_csv(options);
  if (!profile) return kOk;
  write_file(options.output, print(*profile));
  std::cout << (options.csv.empty() ? "\n" : "") << "profile written to " << options.output << "\n";
  return kOk;
}

}  // namespace

RunMode add_profile(CLI::App& app) {
  const auto options = std::make_shared<ProfileOptions>();
  app.add_option("CONFIG", options->config, "Configuration file (TOML) of the run");
  app.add_option("--set", options->overrides,
                 "section.key=value, over the file's; may be given several times")
      ->allow_extra_args(false);
  app.add_option("-o,--output", options->output, "Write the profile to FILE")
      ->type_name("FILE")
      ->required();
  app.add_option("--micro-batches", options->micro_batches,
                 "Sizes to measure, as 1,2,4 (default: 1, 2, 4, ... up to pipeline.micro_batch)")
      ->type_name("SIZES");
  app.add_option("--repeats", options->repeats, "Rounds whose means are taken")
      ->type_name("N")
      ->capture_default_str();
  app.add_option(
         "--ranks", options->ranks,
         "Threads that measure at once (default: as many as will train here, or cores; in an\n"
         "MPI job its processes do)")
      ->type_name("R");
  app.add_option("--from-csv", options->csv,
                 "Make the profile of a published table of one layer (bs, time_f, time_b, ...)")
      ->type_name("FILE");
  app.add_option("--message-bytes", options->message_bytes,
                 "With --from-csv: bytes of one sequence's message between stages")
      ->type_name("BYTES");
  app.add_option("--blocks", options->blocks, "With --from-csv: layers of the model")
      ->type_name("N")
      ->capture_default_str();
  app.footer(
      "Measures each kind of layer as training runs it, for several sizes of micro-batch, on as\n"
      "many threads at once as will train, and the links between them; best while the machine\n"
      "does nothing else. As processes of an MPI job it measures MPI's links. The file is "
      "described\n"
      "in docs/formats.md.\n"
      "\nExamples:\n"
      "  chimera profile examples/demo.toml -o demo-profile.toml\n"
      "  mpirun -n 4 chimera profile examples/demo.toml -o mpi-profile.toml\n"
      "  chimera profile --from-csv bert-large_P100.csv --message-bytes 524288 --blocks 48 -o "
      "p.toml");
  return [options] { return run_profile(*options); };
}

}  // namespace chimera
