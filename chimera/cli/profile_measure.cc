#include "chimera/cli/profile_measure.h"

#include <algorithm>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <thread>

#include "chimera/base/heap.h"
#include "chimera/base/text.h"
#include "chimera/job/model_profile.h"
#include "chimera/model/memory_meter.h"
#include "chimera/runtime/agreement.h"
#include "chimera/runtime/launch.h"
#include "chimera/train/layer_times.h"
#include "chimera/train/link_times.h"

namespace chimera {
namespace {

constexpr int kLinkRepeats = 50;
// A rank that measures is silent for long; it waits for others at the end of rounds.
constexpr double kLimitS = 600;

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    return std::string(trim(std::string_view(line).substr(line.find(':') + 1)));
  }
  return "unknown processor";
}

struct Measured {
  LayerTimes layers;
  std::vector<SizedTime> messages, sums;
};

// Bytes around what the gradients of a stage have: a line through sizes that fit into caches and
// others that do not fits neither. Not so few that waking a thread takes longer than adding them.
std::vector<std::size_t> sum_sizes(const Profile& sized, int stages) {
  constexpr double kLeast = 256 << 10, kMost = 16 << 20;
  const double bytes =
      std::clamp(static_cast<double>(sized.parameters()) * sizeof(float) / stages, kLeast, kMost);
  std::vector<std::size_t> sizes;
  for (const double times : {0.25, 0.5, 1.0, 2.0, 4.0}) {
    sizes.push_back(static_cast<std::size_t>(times * bytes) / 64 * 64);
  }
  return sizes;
}

// What must be the same for all ranks, or they would wait for each other's sizes.
Facts facts_of(const Config& config, const MeasureOptions& options) {
  Facts facts = {{"--micro-batches", join(options.sizes, ",")},
                 {"--repeats", cat(options.repeats)}};
  for (const KeyValue& key : values(config)) {
    facts.emplace_back(cat(key.section, ".", key.name), key.value);
  }
  return facts;
}

// On rank 0.
std::optional<Measured> measure(const Config& config, const Profile& sized,
                                const MeasureOptions& options) {
  constexpr std::size_t kKibi = 1024;
  const std::vector<std::size_t> message_sizes = {16 * kKibi, 64 * kKibi, 256 * kKibi, 1024 * kKibi,
                                                  4096 * kKibi};
  const std::vector<std::size_t> gradient_sizes = sum_sizes(sized, config.pipeline.stages);
  std::optional<Measured> measured;
  const auto measure_rank = [&](Transport& transport) {
    Measured own;
    own.layers =
        measure_layers(config, {.sizes = options.sizes, .rounds = options.repeats}, transport);
    if (options.ranks > 1) {
      own.messages = time_messages(transport, message_sizes, kLinkRepeats);
      own.sums = time_sums(transport, gradient_sizes, kLinkRepeats);
    }
    if (transport.rank() == 0) measured = std::move(own);
  };
  if (!options.in_processes) {
    launch_local(options.ranks, {.limit_s = kLimitS}, measure_rank);
    return measured;
  }
  launch_process({.limit_s = kLimitS, .bind = config.pipeline.bind}, [&](const Rank& rank) {
    agree(rank.transport, facts_of(config, options));
    measure_rank(rank.transport);
  });
  return measured;
}

// ---- what it says

std::string in_ms(double seconds) { return fixed_text(1e3 * seconds, 3); }

void print_row(const std::vector<std::string>& words) {
  std::cout << std::left << std::setw(11) << words.front() << std::right;
  for (std::size_t i = 1; i < words.size(); ++i) std::cout << std::setw(12) << words[i];
  std::cout << "\n";
}

// The spread of a kind's times is that of the stages they are the difference of.
void print_layers(const Profile& profile, const LayerTimes& times) {
  print_row({"ms", "sequences", "forward", "kept", "recompute", "backward", "input", "stash MB"});
  for (const LayerKind& kind : profile.kinds) {
    for (const LayerPoint& point : kind.points) {
      print_row({kind.name, cat(point.sequences), in_ms(point.forward_s),
                 in_ms(point.kept_forward_s), in_ms(point.recompute_s), in_ms(point.backward_s),
                 in_ms(point.backward_input_s), fixed_text(point.stash_bytes / 1e6, 2)});
    }
  }
  std::cout << "\nspread of a stage's times (half of the middle two thirds), one block / "
            << times.blocks << " blocks:\n";
  for (const SizeTimes& size : times.sizes) {
    const ProbeTimes &one = size.stages[1], &more = size.stages[2];
    std::cout << "  " << size.sequences << " sequences: forward "
              << percent_text(one.forward.spread) << " / " << percent_text(more.forward.spread)
              << ", backward " << percent_text(one.backward.spread) << " / "
              << percent_text(more.backward.spread) << "; " << one.forward.times << " times each\n";
  }
}

void print_steps(const Profile& profile, const LayerTimes& times) {
  std::cout << "\nstep, ms:";
  for (const LayerKind& kind : profile.kinds) {
    std::cout << " " << kind.name << " " << in_ms(kind.step_s) << ",";
  }
  std::cout << " ranks' exchange " << in_ms(profile.step_s) << "; " << times.exchange.times
            << " times each\n";
}

void print_link(const char* what, const std::optional<LinkFit>& fit,
                const std::vector<SizedTime>& points) {
  if (!fit) return;
  std::cout << what << ": latency " << 1e6 * fit->link.latency_s << " us, "
            << fit->link.bandwidth / 1e9 << " GB/s; off the line by "
            << percent_text(fit->mean_error) << " in the mean, " << percent_text(fit->worst_error)
            << " at worst, over " << points.size() << " sizes, " << kLinkRepeats << " times each\n";
}

}  // namespace

std::vector<int> usual_sizes(int most) {
  std::vector<int> sizes;
  for (int size = 1; size < most; size *= 2) sizes.push_back(size);
  sizes.push_back(most);
  return sizes;
}

std::optional<Profile> measure_profile(const Config& config, const MeasureOptions& options) {
  install_memory_meter();
  keep_freed_memory();
  Profile profile = sized_profile(config, options.sizes);
  const std::optional<Measured> measured = measure(config, profile, options);
  if (!measured) return std::nullopt;
  profile.device = cat(processor(), ", ", std::thread::hardware_concurrency(), " cores");
  profile.source = cat("chimera profile: means of ", options.repeats, " rounds, ", options.ranks,
                       options.ranks == 1     ? " rank"
                       : options.in_processes ? " ranks at once, over MPI"
                                              : " ranks at once, as threads");
  enter_times(measured->layers, profile);
  if (options.ranks > 1) {
    profile.p2p = fit_link(measured->messages);
    profile.reduce = fit_hop(measured->sums, options.ranks);
  }
  std::cout << profile.device << "; " << profile.source << "\n\n";
  print_layers(profile, measured->layers);
  print_steps(profile, measured->layers);
  print_link("message", profile.p2p, measured->messages);
  print_link("hop of an all-reduce", profile.reduce, measured->sums);
  return profile;
}

}  // namespace chimera
