// The power goes between any two calls of a checkpoint, and any part of what was not synced is
// lost: what is found afterwards is one of the two neighbours, bit for bit.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <optional>
#include <string>

#include "chimera/base/random.h"
#include "chimera/storage/step_folder.h"
#include "chimera/storage/testing.h"

namespace chimera {
namespace {

using testing::PowerCut;
using testing::SimulatedDisk;

constexpr const char* kFolder = "runs/checkpoints";

std::string tensor_of(std::int64_t step) {
  return cat("the weights after step ", step, ", and more of them than one block of the disk");
}

Manifest manifest_of(std::int64_t step) {
  Manifest manifest;
  manifest.program = "test";
  manifest.step = step;
  manifest.config = "[train]\n";
  return manifest;
}

// As a run does it.
void save(Disk& disk, std::int64_t step, int keep) {
  const std::string temporary = temporary_step(kFolder, step, "abc");
  Manifest manifest = manifest_of(step);
  disk.make_folder(temporary);
  for (const char* name : {"part-0000.safetensors", "part-0001.safetensors"}) {
    const std::string text = tensor_of(step) + name;
    const TensorBytes tensor{
        name, DType::kUInt8, {std::ssize(text)}, std::as_bytes(std::span(text))};
    manifest.files[name] = write_tensor_file(disk, path_in(temporary, name), {&tensor, 1}, {});
    manifest.tensors[name] = {name, DType::kUInt8, {std::ssize(text)}};
    disk.sync_folder(temporary);
  }
  commit_checkpoint(disk, kFolder, temporary, manifest);
  remove_older(disk, kFolder, keep);
}

SimulatedDisk new_disk() {
  SimulatedDisk disk;
  disk.make_folder("runs");
  disk.sync_folder(".");
  prepare_checkpoint_folder(disk, kFolder);
  return disk;
}

// Calls that a save makes.
int calls_of_save(SimulatedDisk disk, std::int64_t step, int keep) {
  const int before = disk.calls();
  save(disk, step, keep);
  return disk.calls() - before;
}

// Picks by the bits of a number, then at random.
std::function<bool()> picks(std::uint64_t seed) {
  return [random = RandomStream(seed, 7), at = std::uint64_t{0}]() mutable {
    return random.uniform(at++) < 0.5;
  };
}

std::optional<std::int64_t> found(const Disk& disk) {
  return newest_whole(disk, kFolder, std::numeric_limits<std::int64_t>::max());
}

void expect_content(const Disk& disk, std::int64_t step) {
  const std::string path = path_in(kFolder, step_name(step));
  for (const char* name : {"part-0000.safetensors", "part-0001.safetensors"}) {
    EXPECT_TRUE(read_whole(disk, path_in(path, name)).ends_with(tensor_of(step) + name));
  }
}

class PowerCutTest : public ::testing::TestWithParam<int> {};

TEST_P(PowerCutTest, LeavesOneOfTheTwoNeighbours) {
  const int keep = GetParam();
  SimulatedDisk disk = new_disk();
  save(disk, 5, keep);
  save(disk, 10, keep);
  const int calls = calls_of_save(disk, 15, keep);
  int older = 0, newer = 0;
  for (int call = 0; call <= calls; ++call) {
    SimulatedDisk cut = disk;
    SCOPED_TRACE(cat("cut before call ", call));
    cut.cut_after(call);
    try {
      save(cut, 15, keep);
    } catch (const PowerCut&) {
    }
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      const auto all = [seed] { return seed == 0; };
      SimulatedDisk after = cut.after_cut(seed < 2 ? std::function<bool()>(all) : picks(seed));
      const auto step = found(after);
      ASSERT_TRUE(step.has_value());
      ASSERT_TRUE(*step == 10 || *step == 15) << *step;
      ++(*step == 10 ? older : newer);
      expect_content(after, *step);
      // And a run that goes on from there cleans up, and saves again.
      if (seed % 20 != 0) continue;
      remove_temporaries(after, kFolder);
      save(after, *step + 5, keep);
      ASSERT_EQ(found(after), *step + 5);
      expect_content(after, *step + 5);
      EXPECT_LE(list_steps(after, kFolder).size(), static_cast<std::size_t>(keep) + 1);
    }
  }
  EXPECT_GT(older, 100);
  EXPECT_GT(newer, 100);
}

TEST_P(PowerCutTest, OfTheFirstCheckpointLeavesItOrNone) {
  SimulatedDisk disk = new_disk();
  const int calls = calls_of_save(disk, 5, GetParam());
  for (int call = 0; call <= calls; ++call) {
    SimulatedDisk cut = disk;
    cut.cut_after(call);
    try {
      save(cut, 5, GetParam());
    } catch (const PowerCut&) {
    }
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      const SimulatedDisk after = cut.after_cut(picks(seed));
      if (const auto step = found(after)) expect_content(after, *step);
    }
  }
  save(disk, 5, GetParam());
  EXPECT_EQ(found(disk.after_cut([] { return false; })), 5);
}

INSTANTIATE_TEST_SUITE_P(Kept, PowerCutTest, ::testing::Values(1, 2, 3));

// The simulated disk is as cruel as it says.
TEST(SimulatedDisk, LosesWhatWasNotSynced) {
  SimulatedDisk disk;
  disk.make_folder("a");
  const auto none = [] { return false; };
  EXPECT_FALSE(disk.after_cut(none).exists("a"));
  disk.sync_folder(".");
  write_synced(disk, "a/f", "text");
  EXPECT_FALSE(disk.after_cut(none).exists("a/f"));
  disk.sync_folder("a");
  EXPECT_EQ(read_whole(disk.after_cut(none), "a/f"), "text");
  disk.create("a/g")->write(std::as_bytes(std::span("more", 4)));
  disk.sync_folder("a");
  EXPECT_EQ(read_whole(disk.after_cut(none), "a/g"), std::string(4, '\0'));
  disk.rename("a/f", "a/h");
  EXPECT_TRUE(disk.after_cut(none).exists("a/f"));
  EXPECT_TRUE(disk.after_cut([] { return true; }).exists("a/h"));
}

}  // namespace
}  // namespace chimera
