// What the tests of this folder and bench/plan_speed.cc share: a profile and a machine in round
// numbers.
#pragma once

#include <string>
#include <vector>

#include "chimera/plan/machine.h"
#include "chimera/plan/profile.h"

namespace chimera {

// Times and bytes grow with the micro-batch; small ones are less efficient.
inline LayerKind test_kind(const std::string& name, double forward_s, double bytes,
                           std::int64_t parameters) {
  LayerKind kind{.name = name, .parameters = parameters};
  kind.weight_bytes = kind.gradient_bytes = 4.0 * static_cast<double>(parameters);
  kind.optimizer_bytes = 2 * kind.weight_bytes;
  kind.step_s = 1e-9 * static_cast<double>(parameters);
  for (const int sequences : {1, 2, 4, 8}) {
    const double size = sequences, seconds = forward_s * (0.2 + 0.8 * size);
    kind.points.push_back({.sequences = sequences,
                           .forward_s = seconds,
                           .backward_s = 2 * seconds,
                           .backward_input_s = seconds,
                           .recompute_s = seconds,
                           .stash_bytes = bytes * size,
                           .forward_work_bytes = bytes * size / 8,
                           .kept_forward_work_bytes = bytes * size / 4,
                           .recompute_work_bytes = bytes * size / 8,
                           .backward_work_bytes = bytes * size / 4,
                           .output_bytes = bytes * size / 16});
  }
  return kind;
}

// Blocks of 10 ms, 64 MB of activations and 1 M parameters; a head that costs two of them.
inline Profile test_profile(int blocks) {
  Profile profile;
  profile.device = "a device";
  profile.source = "round numbers";
  profile.kinds = {test_kind("embedding", 1e-3, 8e6, 4'000'000),
                   test_kind("block", 10e-3, 64e6, 1'000'000),
                   test_kind("head", 20e-3, 32e6, 4'000'000)};
  profile.first = {"embedding"};
  profile.blocks.assign(static_cast<std::size_t>(blocks), "block");
  profile.last = {"head"};
  profile.step_s = 1e-3;
  return profile;
}

inline Machine test_machine(int devices, double gigabytes) {
  Machine machine;
  machine.name = "a machine";
  machine.source = "round numbers";
  machine.nodes = devices;
  if (gigabytes > 0) machine.memory_bytes = {gigabytes * 1e9};
  machine.between = {{20e-6, 2e9}, {20e-6, 2e9}};
  machine.within = machine.between;
  return machine;
}

}  // namespace chimera
