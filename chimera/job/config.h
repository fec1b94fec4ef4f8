// The configuration of a training run: a TOML file and `--set section.key=value` overrides.
//
// A plain value; knows no tensors. Every key is one line of a table (config.cc) that reads, prints
// and explains it, so that what is read, what --help says and what is saved beside weights agree.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chimera/shape/spec.h"

namespace chimera {

struct DataConfig {
  std::string text;
  std::string tokenizer = "byte";
};

struct TrainConfig {
  std::int64_t steps = 100;
  int batch = 8;  // sequences of one optimizer step
  double learning_rate = 1e-3;
  std::int64_t warmup_steps = 0;
  double weight_decay = 0.1;  // of matrices; biases and norms have none
  double clip = 1.0;          // largest global gradient norm; 0: no limit
  std::uint64_t seed = 1;
  std::int64_t check_replicas_every = 0;  // steps; 0: never
  std::int64_t checkpoint_every = 0;      // steps; 0: never
  std::string checkpoint_folder = "checkpoints";
  int checkpoint_keep = 2;
};

struct PipelineConfig {
  std::string schedule = "chimera";
  int stages = 2;
  int pairs = 1;
  std::string method = "direct";
  bool fused = false;
  int width = 1;
  int micro_batch = 1;  // sequences
  std::string split;    // blocks of each stage, as 3,2,2,1; empty: balanced
  std::string reduce = "eager-opt";
  double bucket_mb = 16;  // most of a stage's gradients in one all-reduce
  std::string recompute = "none";
  std::string memory;  // GB that a worker may hold; one number, or one for each worker; empty: all
  std::string transport = "auto";  // auto: mpi where a launcher started several processes
  int threads = 1;                 // intra-op threads of each worker
  bool bind = true;                // processes to cores, where there are enough of them
};

// After how long a run that makes no progress ends, with the rank that is to blame.
struct LimitsConfig {
  double seconds = 30;           // for one action, and for a rank to give no sign of life
  double startup_seconds = 300;  // until every rank has begun
};

// What the pipeline was planned from (chimera plan); `chimera emulate` reads them.
struct PlanConfig {
  std::string profile;  // a file
  std::string machine;  // a preset's name or a file
};

// The PATH of pipeline.schedule = "file:PATH"; nothing where it names a generator.
[[nodiscard]] std::optional<std::string> schedule_file(const PipelineConfig& pipeline);

struct Config {
  ModelSpec model;
  DataConfig data;
  TrainConfig train;
  PipelineConfig pipeline;
  LimitsConfig limits;
  PlanConfig plan;
};

// Reads a file, then applies overrides in order ("pipeline.stages=4"). Throws Error (kUsage) for
// syntax errors (with line), unknown sections and keys (with the nearest), wrong types and values
// out of range; (kIo) for a file that cannot be read.
[[nodiscard]] Config load_config(const std::string& path, std::span<const std::string> overrides);

// The same from a text; `source` is its name in messages.
[[nodiscard]] Config parse_config(std::string_view text, std::string_view source,
                                  std::span<const std::string> overrides = {});

// TOML that parses to the same configuration.
[[nodiscard]] std::string print(const Config& config);

// A key as it is printed.
struct KeyValue {
  std::string_view section, name;
  std::string value;
};
[[nodiscard]] std::vector<KeyValue> values(const Config& config);

// One line a key with its default, for --help.
[[nodiscard]] std::string config_help();

}  // namespace chimera
