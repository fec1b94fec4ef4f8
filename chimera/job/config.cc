#include "chimera/job/config.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iomanip>
#include <limits>
#include <vector>

#include "chimera/base/check.h"
#include "chimera/base/error.h"
#include "chimera/base/file.h"
#include "chimera/base/number.h"
#include "chimera/base/text.h"
#include "chimera/generate/generate.h"
#include "chimera/schedule/lower.h"

namespace chimera {
namespace {

constexpr std::int64_t kMaxInt = std::numeric_limits<int>::max();

[[noreturn]] void refuse(std::string_view key, const std::string& seen,
                         const std::string& expected) {
  throw Error(ErrorCode::kUsage, cat(key, " is ", seen, "; expected ", expected));
}

std::string seen(const toml::node& node) {
  std::ostringstream out;
  node.visit([&](const auto& value) { out << value; });
  std::string text = out.str();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::int64_t read_integer(std::string_view key, const toml::node& node, std::int64_t low,
                          std::int64_t high) {
  const auto* value = node.as_integer();
  if (value == nullptr || value->get() < low || value->get() > high) {
    refuse(key, seen(node),
           high >= kMaxInt ? cat("a whole number from ", low)
                           : cat("a whole number from ", low, " to ", high));
  }
  return value->get();
}

double read_number(std::string_view key, const toml::node& node, double low, bool open) {
  const auto value = node.is_number() ? node.value<double>() : std::nullopt;
  if (!value || !std::isfinite(*value) || *value < low || (open && *value == low)) {
    refuse(key, seen(node), cat("a number ", open ? "above " : "from ", low));
  }
  return *value;
}

std::string read_string(std::string_view key, const toml::node& node) {
  const auto* value = node.as_string();
  if (value == nullptr) refuse(key, seen(node), "a text in quotes");
  return value->get();
}

bool read_bool(std::string_view key, const toml::node& node) {
  const auto* value = node.as_boolean();
  if (value == nullptr) refuse(key, seen(node), "true or false");
  return value->get();
}

DType read_dtype(std::string_view key, const toml::node& node) {
  constexpr std::array<std::string_view, 3> kNames = {
      info(DType::kFloat64).name, info(DType::kFloat32).name, info(DType::kBFloat16).name};
  const std::string name = read_string(key, node);
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) {
    throw Error(ErrorCode::kUsage, cat(key, ": ", unknown_word("number format", name, kNames)));
  }
  return static_cast<DType>(found - kNames.begin());
}

// A split may be a text, "3,2,2,1", or an array of numbers.
std::string read_split(std::string_view key, const toml::node& node) {
  const auto* array = node.as_array();
  if (array == nullptr) {
    if (node.is_string()) return read_string(key, node);
    if (node.is_integer()) return cat(read_integer(key, node, 1, kMaxInt));
    refuse(key, seen(node), "blocks of each stage, as \"3,2,2,1\"");
  }
  std::vector<std::int64_t> blocks;
  for (const auto& element : *array) blocks.push_back(read_integer(key, element, 1, kMaxInt));
  return join(blocks, ",");
}

// Numbers parted by commas may be a text, an array or one number; a text may be a word, too.
std::string read_numbers(std::string_view key, const toml::node& node) {
  const auto number = [&](const toml::node& element) {
    if (!element.is_number()) refuse(key, seen(element), "numbers parted by commas");
    const auto* value = element.as_floating_point();
    // The range is for whoever knows what they mean.
    return value == nullptr ? seen(element) : exact_text(value->get());
  };
  if (node.is_string()) return read_string(key, node);
  const auto* array = node.as_array();
  if (array == nullptr) return number(node);
  std::vector<std::string> words;
  for (const auto& element : *array) words.push_back(number(element));
  return join(words, ",");
}

// "gpipe, 1f1b, ..., or file:PATH"
std::string_view schedule_names() {
  static const std::string names = [] {
    std::string text;
    for (const Generator& generator : generators()) text += cat(generator.name, ", ");
    return text + "or file:PATH of a schedule file";
  }();
  return names;
}

std::string_view reduce_help() {
  static const std::string help = cat("when gradients are reduced: ", join(kReducePolicies));
  return help;
}

std::string toml_text(const std::string& text) {
  std::ostringstream out;
  out << toml::value<std::string>(text);
  return out.str();
}

using Set = std::function<void(Config&, std::string_view, const toml::node&)>;
using Print = std::function<std::string(const Config&)>;

struct Key {
  std::string_view section, name, help;
  Set set;
  Print print;
};

// One maker a type of value; `at` finds the value in a configuration.
template <class At>
Key integer(std::string_view section, std::string_view name, std::string_view help, At at,
            std::int64_t low, std::int64_t high = kMaxInt) {
  return {section, name, help,
          [=](Config& config, std::string_view key, const toml::node& node) {
            auto& value = at(config);
            value = static_cast<std::remove_reference_t<decltype(value)>>(
                read_integer(key, node, low, high));
          },
          [=](const Config& config) { return cat(at(config)); }};
}

template <class At>
Key number(std::string_view section, std::string_view name, std::string_view help, At at,
           double low, bool open) {
  return {section, name, help,
          [=](Config& config, std::string_view key, const toml::node& node) {
            at(config) = read_number(key, node, low, open);
          },
          [=](const Config& config) { return exact_text(at(config)); }};
}

template <class At>
Key text(std::string_view section, std::string_view name, std::string_view help, At at,
         std::string (*parse_text)(std::string_view, const toml::node&) = read_string) {
  return {section, name, help,
          [=](Config& config, std::string_view key, const toml::node& node) {
            at(config) = parse_text(key, node);
          },
          [=](const Config& config) { return toml_text(at(config)); }};
}

template <class At>
Key flag(std::string_view section, std::string_view name, std::string_view help, At at) {
  return {section, name, help,
          [=](Config& config, std::string_view key, const toml::node& node) {
            at(config) = read_bool(key, node);
          },
          [=](const Config& config) { return std::string(at(config) ? "true" : "false"); }};
}

Key dtype_key() {
  return {
      "model", "dtype", "numbers of the computation: fp64, fp32, bf16",
      [](Config& config, std::string_view key, const toml::node& node) {
        config.model.dtype = read_dtype(key, node);
      },
      [](const Config& config) { return toml_text(std::string(info(config.model.dtype).name)); }};
}

const std::vector<Key>& keys() {
  constexpr std::int64_t kLong = std::numeric_limits<std::int64_t>::max();
  static const std::vector<Key> table = {
      text(
          "model", "kind", "gpt2", [](auto& c) -> auto& { return c.model.kind; }),
      integer(
          "model", "layers", "transformer blocks", [](auto& c) -> auto& { return c.model.layers; },
          1),
      integer(
          "model", "hidden", "width", [](auto& c) -> auto& { return c.model.hidden; }, 1),
      integer(
          "model", "heads", "attention heads; divide hidden",
          [](auto& c) -> auto& { return c.model.heads; }, 1),
      integer(
          "model", "sequence", "tokens of a sequence",
          [](auto& c) -> auto& { return c.model.sequence; }, 1),
      integer(
          "model", "vocabulary", "tokens that the model knows; 0: as many as the data's",
          [](auto& c) -> auto& { return c.model.vocabulary; }, 0),
      number(
          "model", "dropout", "probability, from 0 to below 1",
          [](auto& c) -> auto& { return c.model.dropout; }, 0, false),
      flag(
          "model", "tied", "the head shares the token embedding's weights",
          [](auto& c) -> auto& { return c.model.tied; }),
      dtype_key(),
      text(
          "data", "text", "a text file, or a token file",
          [](auto& c) -> auto& { return c.data.text; }),
      text(
          "data", "tokenizer", "byte", [](auto& c) -> auto& { return c.data.tokenizer; }),
      integer(
          "train", "steps", "optimizer steps", [](auto& c) -> auto& { return c.train.steps; }, 1,
          kLong),
      integer(
          "train", "batch", "sequences of one optimizer step",
          [](auto& c) -> auto& { return c.train.batch; }, 1),
      number(
          "train", "learning_rate", "after warm-up; falls along a cosine to a tenth",
          [](auto& c) -> auto& { return c.train.learning_rate; }, 0, true),
      integer(
          "train", "warmup_steps", "steps over which the learning rate rises",
          [](auto& c) -> auto& { return c.train.warmup_steps; }, 0, kLong),
      number(
          "train", "weight_decay", "AdamW's, of matrices alone",
          [](auto& c) -> auto& { return c.train.weight_decay; }, 0, false),
      number(
          "train", "clip", "largest gradient norm over all stages; 0: no limit",
          [](auto& c) -> auto& { return c.train.clip; }, 0, false),
      integer(
          "train", "seed", "of initial weights, dropout and the order of data",
          [](auto& c) -> auto& { return c.train.seed; }, 0, kLong),
      integer(
          "train", "check_replicas_every",
          "steps from one check that replicas are bitwise equal to the next; 0: none",
          [](auto& c) -> auto& { return c.train.check_replicas_every; }, 0, kLong),
      integer(
          "train", "checkpoint_every", "steps from one checkpoint to the next; 0: none",
          [](auto& c) -> auto& { return c.train.checkpoint_every; }, 0, kLong),
      text(
          "train", "checkpoint_folder", "where they are; on a disk that all machines share",
          [](auto& c) -> auto& { return c.train.checkpoint_folder; }),
      integer(
          "train", "checkpoint_keep", "how many of the newest are kept",
          [](auto& c) -> auto& { return c.train.checkpoint_keep; }, 1),
      text(
          "pipeline", "schedule", schedule_names(),
          [](auto& c) -> auto& { return c.pipeline.schedule; }),
      integer(
          "pipeline", "stages", "D: parts of the model, and workers of a group",
          [](auto& c) -> auto& { return c.pipeline.stages; }, 1),
      integer(
          "pipeline", "pairs", "f: pairs of pipes (chimera); divides stages / 2",
          [](auto& c) -> auto& { return c.pipeline.pairs; }, 1),
      text(
          "pipeline", "method", "beyond N = D (chimera): direct, doubling or halving",
          [](auto& c) -> auto& { return c.pipeline.method; }),
      flag(
          "pipeline", "fused", "doubling: both forwards of a pair as one action",
          [](auto& c) -> auto& { return c.pipeline.fused; }),
      integer(
          "pipeline", "width", "W: groups of workers, each with the whole model",
          [](auto& c) -> auto& { return c.pipeline.width; }, 1),
      integer(
          "pipeline", "micro_batch", "B: sequences of a micro-batch, at most",
          [](auto& c) -> auto& { return c.pipeline.micro_batch; }, 1),
      text(
          "pipeline", "split", "blocks of each stage, as \"3,2,2,1\"; empty: balanced",
          [](auto& c) -> auto& { return c.pipeline.split; }, read_split),
      text(
          "pipeline", "reduce", reduce_help(), [](auto& c) -> auto& { return c.pipeline.reduce; }),
      number(
          "pipeline", "bucket_mb", "most megabytes of gradients in one all-reduce",
          [](auto& c) -> auto& { return c.pipeline.bucket_mb; }, 0, true),
      text(
          "pipeline", "recompute",
          "activations not kept: none, all, auto (as memory asks), or blocks of each stage, as "
          "\"2,0,1\"",
          [](auto& c) -> auto& { return c.pipeline.recompute; }, read_numbers),
      text(
          "pipeline", "memory",
          "gigabytes a worker may hold, one number or one for each worker; empty: no limit",
          [](auto& c) -> auto& { return c.pipeline.memory; }, read_numbers),
      text(
          "pipeline", "transport",
          "local: workers are threads; mpi: processes; auto: as the launcher says",
          [](auto& c) -> auto& { return c.pipeline.transport; }),
      integer(
          "pipeline", "threads", "intra-op threads of each worker",
          [](auto& c) -> auto& { return c.pipeline.threads; }, 1, 1024),
      flag(
          "pipeline", "bind", "bind processes to cores, where there are enough and mpirun did not",
          [](auto& c) -> auto& { return c.pipeline.bind; }),
      number(
          "limits", "seconds", "longest action, and longest silence of a rank, before the run ends",
          [](auto& c) -> auto& { return c.limits.seconds; }, 0, true),
      number(
          "limits", "startup_seconds", "longest time until every rank has begun its first step",
          [](auto& c) -> auto& { return c.limits.startup_seconds; }, 0, true),
      text(
          "plan", "profile", "the profile that the pipeline was planned from",
          [](auto& c) -> auto& { return c.plan.profile; }),
      text(
          "plan", "machine", "and the machine: a preset or a file",
          [](auto& c) -> auto& { return c.plan.machine; }),
  };
  return table;
}

std::vector<std::string_view> sections() {
  std::vector<std::string_view> names;
  for (const Key& key : keys()) {
    if (names.empty() || names.back() != key.section) names.push_back(key.section);
  }
  return names;
}

const Key& find_key(std::string_view source, std::string_view section, std::string_view name) {
  std::vector<std::string_view> known;
  for (const Key& key : keys()) {
    if (key.section != section) continue;
    if (key.name == name) return key;
    known.push_back(key.name);
  }
  if (known.empty()) {
    throw Error(ErrorCode::kUsage, cat(source, ": ", unknown_word("section", section, sections())));
  }
  throw Error(ErrorCode::kUsage,
              cat(source, ": ", unknown_word(cat("key in [", section, "]"), name, known)));
}

void set(Config& config, std::string_view source, std::string_view section, std::string_view name,
         const toml::node& node) {
  const Key& key = find_key(source, section, name);
  key.set(config, cat(source, ": ", section, ".", name), node);
}

toml::table parse_toml(std::string_view text, std::string_view source) {
  try {
    return toml::parse(text, source);
  } catch (const toml::parse_error& error) {
    throw Error(ErrorCode::kUsage,
                cat(source, ":", error.source().begin.line, ": ", error.description()));
  }
}

// The value as TOML; a bare word that is none is a text, so that schedule=1f1b needs no quotes.
toml::table parse_value(std::string_view value) {
  try {
    return toml::parse(cat("value = ", value));
  } catch (const toml::parse_error&) {
    return toml::table{{"value", std::string(value)}};
  }
}

void apply_override(Config& config, std::string_view text) {
  const auto equals = text.find('=');
  const auto dot = text.substr(0, equals).find('.');
  if (equals == std::string_view::npos || dot == std::string_view::npos) {
    refuse("--set", cat("'", text, "'"), "section.key=value, as in pipeline.stages=4");
  }
  const toml::table value = parse_value(trim(text.substr(equals + 1)));
  set(config, "--set", trim(text.substr(0, dot)), trim(text.substr(dot + 1, equals - dot - 1)),
      *value.get("value"));
}

}  // namespace

std::optional<std::string> schedule_file(const PipelineConfig& pipeline) {
  constexpr std::string_view kFile = "file:";
  if (!pipeline.schedule.starts_with(kFile)) return {};
  return pipeline.schedule.substr(kFile.size());
}

Config parse_config(std::string_view text, std::string_view source,
                    std::span<const std::string> overrides) {
  Config config;
  const toml::table table = parse_toml(text, source);
  for (const auto& [section, node] : table) {
    const auto* values = node.as_table();
    if (values == nullptr) {
      throw Error(ErrorCode::kUsage,
                  cat(source, ": '", section.str(), "' stands outside a section; expected one of ",
                      join(sections()), " in brackets before it"));
    }
    const auto known = sections();
    if (std::find(known.begin(), known.end(), section.str()) == known.end()) {
      throw Error(ErrorCode::kUsage,
                  cat(source, ": ", unknown_word("section", section.str(), known)));
    }
    for (const auto& [name, value] : *values) {
      set(config, source, section.str(), name.str(), value);
    }
  }
  for (const std::string& text_override : overrides) apply_override(config, text_override);
  return config;
}

Config load_config(const std::string& path, std::span<const std::string> overrides) {
  const std::string text = read_file(path);
  // A configuration is a page; the parser recurses, so that what is none could exhaust the stack.
  constexpr std::size_t kMostBytes = 16 * 1024;
  if (text.size() > kMostBytes) {
    throw Error(ErrorCode::kUsage, cat("the configuration '", path, "' has ", text.size(),
                                       " bytes; expected at most ", kMostBytes));
  }
  return parse_config(text, path, overrides);
}

std::string print(const Config& config) {
  std::string text;
  std::string_view section;
  for (const Key& key : keys()) {
    if (key.section != section) text += cat(section.empty() ? "" : "\n", "[", key.section, "]\n");
    section = key.section;
    text += cat(key.name, " = ", key.print(config), "\n");
  }
  return text;
}

std::vector<KeyValue> values(const Config& config) {
  std::vector<KeyValue> all;
  for (const Key& key : keys()) all.push_back({key.section, key.name, key.print(config)});
  return all;
}

std::string config_help() {
  const Config defaults;
  std::ostringstream out;
  std::string_view section;
  for (const Key& key : keys()) {
    if (key.section != section) out << "  [" << key.section << "]\n";
    section = key.section;
    out << "    " << std::left << std::setw(14) << key.name << " " << key.help << " ("
        << key.print(defaults) << ")\n";
  }
  return out.str();
}

}  // namespace chimera
