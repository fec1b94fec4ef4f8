// A run that is saved, ended and gone on with is the run that was never interrupted: bitwise in the
// same layout, to rounding in any other.
#include <ATen/Parallel.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "chimera/base/error.h"
#include "chimera/base/file.h"
#include "chimera/base/text.h"
#include "chimera/job/train_plan.h"
#include "chimera/runtime/launch.h"
#include "chimera/runtime/tags.h"
#include "chimera/storage/step_folder.h"
#include "chimera/train/checkpointer.h"
#include "chimera/train/resume.h"
#include "chimera/train/trainer.h"
#include "tests/equivalence/tiny.h"

namespace chimera::tiny {
namespace {

namespace fs = std::filesystem;

// A folder of this test, empty at first, removed after it.
class TestFolder {
 public:
  TestFolder() : path_(::testing::TempDir() + "chimera-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) std::abort();
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  ~TestFolder() { fs::remove_all(path_); }

  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }
  [[nodiscard]] std::vector<std::string> names() const { return RealDisk().list(path_); }

 private:
  std::string path_;
};

struct Run {
  Config config;
  std::string resume = {};    // or empty
  std::int64_t steps = 1000;  // ends after so many steps of this run
  CheckpointOptions options = {};
};

struct RunResult : Result {
  std::vector<std::string> told;
  std::map<std::string, at::Tensor> moments;  // of parameters that rank 0 holds
};

RunResult run(const Run& wanted) {
  const TinyDataset dataset(101, wanted.config.model.sequence);
  const TrainPlan plan = make_plan(wanted.config, dataset.vocabulary());
  RunResult result;
  launch_local(plan.ranks(), {.limit_s = 60, .describe = describe_tag}, [&](Transport& transport) {
    at::set_num_threads(1);
    Trainer trainer(plan, dataset, transport);
    CheckpointOptions options = wanted.options;
    options.program = "test";
    options.tell = [&](const std::string& line) { result.told.push_back(line); };
    std::optional<CheckpointSource> source;
    if (!wanted.resume.empty()) {
      source = resume(wanted.resume, plan, transport, trainer, options);
      trainer.check_replicas();
    }
    std::optional<Checkpointer> checkpointer;
    if (wanted.config.train.checkpoint_every > 0) {
      checkpointer.emplace(plan, transport, trainer, options, source);
    }
    for (std::int64_t step = 0; step < wanted.steps && !trainer.done(); ++step) {
      for (const StepReport& report : trainer.step()) {
        if (transport.rank() != 0) continue;
        result.losses.push_back(report.loss);
        result.norms.push_back(report.gradient_norm);
      }
      if (checkpointer) checkpointer->after_step();
    }
    if (checkpointer) checkpointer->finish();
    NamedTensors weights = trainer.gather_weights();
    if (transport.rank() != 0) return;
    result.weights = std::move(weights);
    for (const ParameterState& state : trainer.state()) {
      result.moments["first." + state.spec->name] = state.first.clone();
      result.moments["second." + state.spec->name] = state.second.clone();
    }
  });
  return result;
}

Config saving(const TestFolder& folder, std::int64_t every = 5) {
  Config config = tiny_config();
  config.model.layers = 6;
  config.train.checkpoint_every = every;
  config.train.checkpoint_folder = folder.file("checkpoints");
  config.pipeline.schedule = "chimera";
  config.pipeline.stages = 4;
  return config;
}

// What is left of a result after the first steps.
RunResult without_first(RunResult result, int steps) {
  result.losses.erase(result.losses.begin(), result.losses.begin() + steps);
  result.norms.erase(result.norms.begin(), result.norms.begin() + steps);
  return result;
}

void expect_same_moments(const RunResult& a, const RunResult& b, const std::string& what) {
  ASSERT_EQ(a.moments.size(), b.moments.size()) << what;
  for (const auto& [name, moment] : a.moments) {
    EXPECT_TRUE(at::equal(moment, b.moments.at(name))) << what << ", " << name;
  }
}

// Reported cases (docs/cases.md): C2, C8.
TEST(Checkpoint, ResumedRunIsTheUnbrokenOneBitForBit) {
  struct Case {
    const char* name;
    std::function<void(Config&)> change;
  };
  const std::vector<Case> cases = {{"chimera", [](Config&) {}},
                                   {"tied", [](Config& c) { c.model.tied = true; }},
                                   {"dropout", [](Config& c) { c.model.dropout = 0.1; }},
                                   {"bf16", [](Config& c) { c.model.dtype = DType::kBFloat16; }},
                                   {"fp32", [](Config& c) { c.model.dtype = DType::kFloat32; }},
                                   {"one device",
                                    [](Config& c) {
                                      c.pipeline.stages = 1;
                                      c.pipeline.schedule = "gpipe";
                                    }},
                                   {"width", [](Config& c) {
                                      c.pipeline.stages = 2;
                                      c.pipeline.width = 2;
                                    }}};
  for (const Case& one : cases) {
    const TestFolder folder;
    Config config = saving(folder);
    one.change(config);
    Config plain = config;
    plain.train.checkpoint_every = 0;
    const RunResult unbroken = run({plain});
    const RunResult first = run({config, "", 5});
    ASSERT_EQ(first.losses.size(), 5U);
    const RunResult second = run({config, "latest"});
    expect_same_bits(second, without_first(unbroken, 5), one.name);
    expect_same_moments(second, unbroken, one.name);
    EXPECT_TRUE(second.told.empty()) << join(second.told, "\n");
  }
}

// Reported cases (docs/cases.md): C4, C5, C6, C7, C9, C10.
TEST(Checkpoint, AnyLayoutGoesOnFromAny) {
  struct Layout {
    const char* schedule;
    int stages, width, pairs;
    const char* split;
  };
  const auto set = [](Config& config, const Layout& layout) {
    config.pipeline.schedule = layout.schedule;
    config.pipeline.stages = layout.stages;
    config.pipeline.width = layout.width;
    config.pipeline.pairs = layout.pairs;
    config.pipeline.split = layout.split;
  };
  const Layout one = {"gpipe", 1, 1, 1, ""}, four = {"chimera", 4, 1, 1, ""};
  const std::vector<std::pair<Layout, Layout>> cases = {
      {four, {"chimera", 2, 1, 1, ""}},
      {one, four},
      {four, one},
      {four, {"chimera", 8, 1, 1, ""}},
      {{"chimera", 2, 2, 1, ""}, {"chimera", 2, 1, 1, ""}},
      {{"chimera", 2, 1, 1, ""}, {"1f1b", 2, 3, 1, ""}},
      {four, {"1f1b", 4, 1, 1, ""}},
      {{"gems", 4, 1, 1, ""}, four},
      {four, {"chimera", 4, 1, 2, ""}},
      {{"1f1b", 4, 1, 1, "1,2,2,3"}, {"1f1b", 4, 1, 1, "3,3,1,1"}}};
  for (const bool tied : {false, true}) {
    for (const auto& [saved, loaded] : cases) {
      const TestFolder folder;
      Config config = saving(folder);
      config.model.layers = 8;
      config.model.tied = tied;
      const std::string what =
          cat(saved.schedule, " ", saved.stages, "x", saved.width, " to ", loaded.schedule, " ",
              loaded.stages, "x", loaded.width, tied ? ", tied" : "");
      set(config, saved);
      (void)run({config, "", 5});
      set(config, loaded);
      const RunResult second = run({config, "latest"});
      EXPECT_TRUE(second.told.empty()) << join(second.told, "\n");
      config.train.checkpoint_every = 0;
      expect_equal(second, without_first(run({config}), 5), what);
    }
  }
}

// A checkpoint drains an asynchronous pipeline, whether the run ends there or not.
TEST(Checkpoint, ResumedAsynchronousRunIsTheUnbrokenOne) {
  for (const char* schedule : {"pipedream", "pipedream-2bw"}) {
    for (const int saved : {4, 8}) {
      const TestFolder folder, other;
      Config config = saving(folder, 4);
      config.train.clip = 0;
      config.pipeline.schedule = schedule;
      if (std::string(schedule) == "pipedream") config.train.batch = 1;
      Config unbroken = config;
      unbroken.train.checkpoint_folder = other.file("checkpoints");
      const RunResult whole = run({unbroken});
      ASSERT_EQ(whole.losses.size(), 10U);
      EXPECT_EQ(run({config, "", saved}).losses.size(), static_cast<std::size_t>(saved));
      const RunResult second = run({config, "latest"});
      expect_same_bits(second, without_first(whole, saved), cat(schedule, " after ", saved));
      expect_same_moments(second, whole, schedule);
    }
  }
}

// What is in the folder after a run, and how often.
TEST(Checkpoint, KeepsTheNewestAndLeavesNoTrash) {
  const TestFolder folder;
  Config config = saving(folder, 3);
  const std::string checkpoints = config.train.checkpoint_folder;
  fs::create_directories(checkpoints + "/step-00000002.tmp-1234abcd");
  write_file(checkpoints + "/step-00000002.tmp-1234abcd/part-0000.safetensors", "half");
  (void)run({config});
  const RealDisk disk;
  EXPECT_EQ(disk.list(checkpoints),
            (std::vector<std::string>{"lock", "step-00000009", "step-00000010"}));
  EXPECT_EQ(disk.list(checkpoints + "/step-00000010"),
            (std::vector<std::string>{"config.toml", "manifest.json", "part-0000.safetensors",
                                      "part-0001.safetensors"}));
  const Manifest manifest = check_checkpoint(disk, checkpoints + "/step-00000010");
  EXPECT_EQ(manifest.samples, 40);
  EXPECT_EQ(manifest.seed, 5U);
  EXPECT_EQ(manifest.tensors.size(), 3 * make_plan(config, 101).parameters.size());
}

// Where a copy does not fit, training waits; the checkpoint is the same.
TEST(Checkpoint, IsWrittenWhileTrainingWaitsWhereMemoryIsShort) {
  const TestFolder folder;
  Config config = saving(folder);
  const TrainPlan plan = make_plan(config, 101);
  const double most = *std::max_element(plan.peak_bytes.begin(), plan.peak_bytes.end());
  const RunResult whole = run({config});
  fs::remove_all(config.train.checkpoint_folder);
  for (const double room : {0.0, 1e9}) {
    config.pipeline.memory = cat((most + 1 + room) / 1e9);
    bool waits = false;
    launch_local(plan.ranks(), {.limit_s = 60}, [&](Transport& transport) {
      const TinyDataset dataset(101, 8);
      const TrainPlan tight = make_plan(config, 101);
      Trainer trainer(tight, dataset, transport);
      const Checkpointer checkpointer(tight, transport, trainer, {});
      if (transport.rank() == 0) waits = checkpointer.in_foreground();
    });
    EXPECT_EQ(waits, room == 0) << room;
    (void)run({config, "", 5});
    expect_same_bits(run({config, "latest"}), without_first(whole, 5), "resumed");
    fs::remove_all(config.train.checkpoint_folder);
  }
}

void expect_run_refused(const Run& wanted, const std::string& says) {
  try {
    (void)run(wanted);
    ADD_FAILURE() << "not refused: " << says;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(says), std::string::npos)
        << error.what() << "\nexpected: " << says;
  }
}

// Each kind of damage to the newest checkpoint: the one before is used, and a line says why.
TEST(Checkpoint, DamagedOnesArePassedOverWithAMessage) {
  struct Damage {
    const char* what;
    std::function<void(const std::string& path)> inflict;
    const char* says;
  };
  const auto flip = [](const char* name) {
    return [name](const std::string& path) {
      std::string bytes = read_file(path + "/" + name);
      bytes[bytes.size() * 2 / 3] = static_cast<char>(bytes[bytes.size() * 2 / 3] ^ 4);
      write_file(path + "/" + name, bytes);
    };
  };
  const auto cut = [](const char* name) {
    return [name](const std::string& path) { fs::resize_file(path + "/" + name, 100); };
  };
  const auto lose = [](const char* name) {
    return [name](const std::string& path) { fs::remove(path + "/" + name); };
  };
  const std::vector<Damage> cases = {
      {"bit in the first part", flip("part-0000.safetensors"), "damage in 'part-0000"},
      {"bit in the last part", flip("part-0001.safetensors"), "damage in 'part-0001"},
      {"bit in the configuration", flip("config.toml"), "damage in 'config.toml'"},
      {"bit in the manifest", flip("manifest.json"), "checksum"},
      {"manifest cut off", cut("manifest.json"), "does not end with its checksum"},
      {"part cut off", cut("part-0001.safetensors"), "has 100 bytes in 'part-0001"},
      {"manifest lost", lose("manifest.json"), "has no manifest.json"},
      {"part lost", lose("part-0000.safetensors"), "has no file 'part-0000"}};
  const TestFolder folder;
  const Config config = saving(folder, 4);
  const std::string checkpoints = config.train.checkpoint_folder;
  const RunResult whole = run({config});
  fs::remove_all(checkpoints);
  (void)run({config, "", 8});
  const std::string newest = checkpoints + "/step-00000008";
  const std::string spare = folder.file("spare");
  fs::copy(checkpoints, spare, fs::copy_options::recursive);
  for (const Damage& damage : cases) {
    SCOPED_TRACE(damage.what);
    fs::remove_all(checkpoints);
    fs::copy(spare, checkpoints, fs::copy_options::recursive);
    damage.inflict(newest);
    expect_run_refused({config, newest}, damage.says);
    expect_run_refused({config, newest}, "step-00000004' is whole");
    const RunResult second = run({config, "latest"});
    ASSERT_EQ(second.told.size(), 1U) << join(second.told, "\n");
    EXPECT_NE(second.told[0].find(damage.says), std::string::npos) << second.told[0];
    EXPECT_NE(second.told[0].find("step-00000008"), std::string::npos) << second.told[0];
    expect_same_bits(second, without_first(whole, 4), damage.what);
    EXPECT_TRUE(fs::exists(newest + ".damaged"));
    EXPECT_EQ(list_steps(RealDisk(), checkpoints), (std::vector<std::int64_t>{10, 8}));
    fs::remove_all(newest + ".damaged");
  }
  for (const std::int64_t step : {10, 8}) {
    fs::remove(path_in(path_in(checkpoints, step_name(step)), "config.toml"));
  }
  expect_run_refused({config, "latest"}, "no checkpoint that is whole (2 are damaged)");
  fs::remove_all(checkpoints);
  expect_run_refused({config, "latest"}, "no checkpoint");
}

// Rewrites a manifest as another program might have made it, its checksum right.
void rewrite(const std::string& path, const std::function<void(Manifest&)>& change) {
  const std::string file = path + "/manifest.json";
  Manifest manifest = parse_manifest(read_file(file), file);
  change(manifest);
  write_file(file, print(manifest));
}

// Reported cases (docs/cases.md): C5.
TEST(Checkpoint, LoadsNothingButExactlyTheModel) {
  const TestFolder folder;
  const Config config = saving(folder);
  const std::string path = config.train.checkpoint_folder + "/step-00000005";
  const auto expect = [&](const std::function<void(Manifest&)>& change, const std::string& says) {
    fs::remove_all(config.train.checkpoint_folder);
    (void)run({config, "", 5});
    rewrite(path, change);
    expect_run_refused({config, path}, says);
  };
  const char* name = "h.3.attn.c_attn.weight";
  expect([&](Manifest& m) { m.tensors.erase(name); }, cat("has no tensor '", name, "'"));
  expect([&](Manifest& m) { m.tensors.erase(cat("optimizer.second.", name)); },
         cat("has no tensor 'optimizer.second.", name, "'"));
  expect([&](Manifest& m) { m.tensors["h.9.mlp.c_fc.bias"] = m.tensors.begin()->second; },
         "has tensor 'h.9.mlp.c_fc.bias', which the model has not");
  expect([&](Manifest& m) { m.tensors[name].shape = {48, 16}; }, "of shape [48, 16]");
  expect([&](Manifest& m) { m.tensors[name].dtype = DType::kFloat32; }, "type fp32, expected");
  expect([&](Manifest& m) { m.tensors[name].file = "config.toml"; }, "config.toml");
}

TEST(Checkpoint, GoesOnOnlyWithTheSameModelAndOrderOfData) {
  const TestFolder folder;
  const Config saved = saving(folder);
  (void)run({saved, "", 5, {.data = {11, 12}}});
  const auto expect = [&](const std::function<void(Config&)>& change, const std::string& says,
                          DataIdentity data = {11, 12}) {
    Config config = saved;
    change(config);
    expect_run_refused({config, "latest", 1, {.data = data}}, says);
  };
  expect([](Config& c) { c.model.layers = 8; }, "model.layers is 6 in the checkpoint '");
  expect([](Config& c) { c.model.tied = true; }, "model.tied is false in the checkpoint '");
  expect([](Config& c) { c.model.dtype = DType::kFloat32; }, "but 'fp32' here");
  expect([](Config& c) { c.train.seed = 6; }, "train.seed is 5 in the checkpoint '");
  expect([](Config& c) { c.train.batch = 8; }, "the order of the data would be another");
  expect([](Config&) {}, "data.text", {13, 12});
  expect([](Config& c) { c.train.steps = 4; }, "set as many steps or more");
  Config changed = saved;
  changed.train.steps = 7;
  changed.train.learning_rate = 0.0078125;
  changed.train.checkpoint_keep = 1;
  changed.limits.seconds = 20;
  const RunResult second = run({changed, "latest", 1000, {.data = {11, 12}}});
  EXPECT_EQ(second.losses.size(), 2U);
  ASSERT_EQ(second.told.size(), 2U) << join(second.told, "\n");
  EXPECT_EQ(second.told[0].rfind("train.steps is 7, was 10 in '", 0), 0U) << second.told[0];
  EXPECT_EQ(second.told[1].rfind("train.learning_rate is 0.0078125, was 0.01 in '", 0), 0U)
      << second.told[1];
  EXPECT_EQ(list_steps(RealDisk(), saved.train.checkpoint_folder), (std::vector<std::int64_t>{7}));
}

// Checkpoints of one run do not end up among those of another, nor go for them.
TEST(Checkpoint, RefusesAFolderOfAnotherRun) {
  const TestFolder folder;
  Config config = saving(folder, 4);
  (void)run({config, "", 8});
  expect_run_refused({config}, "has step-00000008, of another run; go on from it with --resume");
  const std::string older = config.train.checkpoint_folder + "/step-00000004";
  expect_run_refused({config, older}, "has step-00000008, which is newer than step 4");
  config.train.checkpoint_folder = folder.file("fork");
  EXPECT_EQ(run({config, older}).losses.size(), 6U);
}

TEST(Checkpoint, RefusesFoldersItCannotWriteBeforeItStarts) {
  const TestFolder folder;
  Config config = saving(folder);
  config.train.checkpoint_folder = folder.file("none/checkpoints");
  expect_run_refused({config}, "none/checkpoints': No such file");
  write_file(folder.file("file"), "text");
  config.train.checkpoint_folder = folder.file("file");
  expect_run_refused({config}, "cannot write '");
  config.train.checkpoint_folder = "";
  expect_run_refused({config}, "train.checkpoint_folder is empty");
}

// A disk that is full from the second checkpoint on.
class FullDisk final : public RealDisk {
 public:
  std::unique_ptr<NewFile> create(const std::string& path) override {
    if (path.find("step-00000008.tmp-") != std::string::npos &&
        path.find("part-0001") != std::string::npos) {
      throw Error(ErrorCode::kIo, cat("cannot write '", path, "': No space left on device"));
    }
    return RealDisk::create(path);
  }
};

TEST(Checkpoint, AFailureToWriteEndsTheRunAndLeavesTheLastOne) {
  const TestFolder folder;
  const Config config = saving(folder, 4);
  FullDisk disk;
  expect_run_refused({config, "", 1000, {.disk = &disk}}, "No space left on device");
  fs::remove_all(config.train.checkpoint_folder);
  expect_run_refused({config, "", 1000, {.disk = &disk}}, "rank 1, checkpoint of step 8: cannot");
  EXPECT_EQ(newest_whole(disk, config.train.checkpoint_folder, 1000), 4);
  EXPECT_EQ(run({config, "latest"}).losses.size(), 6U);
}

}  // namespace
}  // namespace chimera::tiny
