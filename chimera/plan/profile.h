// A profile: what a model's layers cost on one device, and what messages cost on one transport. The
// planner's input; measured by `chimera profile`, or read from others' measurements.
//
// Plain values. Times in seconds, sizes in bytes, for one micro-batch on one device. Layers of one
// kind cost the same, so a profile does not depend on how many there are. The file is TOML
// (docs/formats.md).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chimera/simulate/costs.h"

namespace chimera {

// One layer, for micro-batches of so many sequences.
struct LayerPoint {
  int sequences = 0;  // B
  double forward_s = 0;
  double backward_s = 0;        // whole
  double backward_input_s = 0;  // of it, the gradient of the input
  double recompute_s = 0;
  double kept_forward_s = 0;      // of a forward that is to be recomputed; 0: as forward_s
  double stash_bytes = 0;         // what a forward keeps for its backward, neither input nor output
  double forward_work_bytes = 0;  // most while it runs, beyond stash and output
  double kept_forward_work_bytes = 0;  // of a forward that is to be recomputed, beyond its output
  double recompute_work_bytes = 0;     // beyond stash and output
  // Most while it runs, beyond what is held when it begins: stash, input, gradient of the output.
  double backward_work_bytes = 0;
  // The same of the last layer of a stage that is not the last: its output's gradient is a message,
  // which stays. At least backward_work_bytes.
  double end_backward_work_bytes = 0;
  double output_bytes = 0;  // the message to the next layer, as large as the gradient from it

  friend bool operator==(const LayerPoint&, const LayerPoint&) = default;
};

struct LayerKind {
  std::string name;
  std::int64_t parameters = 0;
  double weight_bytes = 0, gradient_bytes = 0, optimizer_bytes = 0;
  double step_s = 0;                    // the optimizer's
  double step_bytes = 0;                // what a step needs besides, for a while
  std::vector<LayerPoint> points = {};  // ascending sizes, at least one

  // Between two sizes that were measured, on the line through them. Throws Error (kUsage) for sizes
  // below the least or above the largest.
  [[nodiscard]] LayerPoint at(int sequences) const;

  friend bool operator==(const LayerKind&, const LayerKind&) = default;
};

// A line through measured times: alpha and 1 / beta, and how far the points are off it.
struct LinkFit {
  Link link;
  double mean_error = 0, worst_error = 0;  // |measured - line| / measured

  friend bool operator==(const LinkFit&, const LinkFit&) = default;
};

struct SizedTime {
  double bytes = 0, seconds = 0;
};
// Least squares of the relative errors. Needs two points of different sizes; throws Error (kData)
// otherwise, and for a line that falls.
[[nodiscard]] LinkFit fit_link(const std::vector<SizedTime>& points);

// A model of more is cut another way: several of its layers as one.
inline constexpr int kMostBlocks = 1024;

struct Profile {
  std::string device, source;                // in words
  std::map<std::string, std::string> model;  // keys of [model] that times depend on: not layers
  std::vector<LayerKind> kinds;
  // The kinds of the layers, nearest the input first. Those in `first` stay on the first stage,
  // those in `last` on the last; blocks are cut between stages.
  std::vector<std::string> first, blocks, last;
  // Kinds that every stage has once beside its layers: what an action costs whatever they are.
  std::vector<std::string> each = {};
  double step_s = 0;  // of each worker's step, beside that of its layers
  // The tokens of one sequence, which the first stage keeps, and its targets, which the last does.
  double tokens_bytes = 0;
  // What the first and the last layers share (a tied embedding) is held once by who holds both.
  std::int64_t shared_parameters = 0;
  // Of the transport that was measured, if any: a message, and a hop of an all-reduce.
  std::optional<LinkFit> p2p, reduce;

  // Throws Error (kUsage) for a name that no kind has.
  [[nodiscard]] const LayerKind& kind(std::string_view name) const;
  [[nodiscard]] std::int64_t parameters() const;  // of the whole model

  friend bool operator==(const Profile&, const Profile&) = default;
};

// Throws Error (kUsage) with file and key for what is missing, unknown, negative or not finite.
[[nodiscard]] Profile parse_profile(std::string_view text, std::string_view source);
[[nodiscard]] Profile load_profile(const std::string& path);  // and (kIo)
[[nodiscard]] std::string print(const Profile& profile);      // parses to the same

}  // namespace chimera
