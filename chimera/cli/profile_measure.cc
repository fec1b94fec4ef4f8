#include "chimera/cli/profile_measure.h"

#include <malloc.h>

#include <fstream>
#include <iomanip>
#include <iostream>
#include <thread>

#include "chimera/base/text.h"
#include "chimera/cli/train_data.h"
#include "chimera/job/model_profile.h"
#include "chimera/model/memory_meter.h"
#include "chimera/runtime/launch.h"
#include "chimera/train/layer_times.h"
#include "chimera/train/link_times.h"

namespace chimera {
namespace {

constexpr int kLinkRepeats = 50;
// A rank that measures is silent for long; it waits for others at the end of rounds.
constexpr double kLimitS = 600;

// The allocator gives the end of its memory back to the system and asks for it again, page by page.
// In training that is a small part of a step; in a probe that frees all it has after each pass it
// would fall on whatever layer comes last: the head.
void keep_freed_memory() {
  constexpr int kMost = 32 << 20;  // the largest that it takes
  ::mallopt(M_MMAP_THRESHOLD, kMost);
  ::mallopt(M_TRIM_THRESHOLD, 2'000'000'000);
}

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

Measured measure(const Config& config, const MeasureOptions& options) {
  constexpr std::size_t kKibi = 1024;
  const std::vector<std::size_t> message_sizes = {16 * kKibi, 64 * kKibi, 256 * kKibi, 1024 * kKibi,
                                                  4096 * kKibi};
  const std::vector<std::size_t> sum_sizes = {64 * kKibi, 256 * kKibi, 1024 * kKibi, 4096 * kKibi,
                                              16384 * kKibi};
  Measured measured;
  launch_local(options.ranks, {.limit_s = kLimitS}, [&](Transport& transport) {
    Measured own;
    own.layers =
        measure_layers(config, {.sizes = options.sizes, .rounds = options.repeats}, transport);
    if (options.ranks > 1) {
      own.messages = time_messages(transport, message_sizes, kLinkRepeats);
      own.sums = time_sums(transport, sum_sizes, kLinkRepeats);
    }
    if (transport.rank() == 0) measured = std::move(own);
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

Config with_vocabulary(Config config) {
  if (config.model.vocabulary == 0) {
    config.model.vocabulary = static_cast<int>(open_data(config).vocabulary());
  }
  validate(config.model);
  return config;
}

Profile measure_profile(const Config& config, const MeasureOptions& options) {
  install_memory_meter();
  keep_freed_memory();
  const Measured measured = measure(config, options);
  Profile profile = sized_profile(config, options.sizes);
  profile.device = cat(processor(), ", ", std::thread::hardware_concurrency(), " cores");
  profile.source = cat("chimera profile: medians of ", options.repeats, " rounds, ", options.ranks,
                       options.ranks == 1 ? " rank" : " ranks at once, as threads");
  enter_times(measured.layers, profile);
  if (options.ranks > 1) {
    profile.p2p = fit_link(measured.messages);
    profile.reduce = fit_hop(measured.sums, options.ranks);
  }
  std::cout << profile.device << "; " << profile.source << "\n\n";
  print_layers(profile, measured.layers);
  print_steps(profile, measured.layers);
  print_link("message", profile.p2p, measured.messages);
  print_link("hop of an all-reduce", profile.reduce, measured.sums);
  return profile;
}

}  // namespace chimera
