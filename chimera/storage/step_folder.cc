#include "chimera/storage/step_folder.h"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "chimera/base/error.h"
#include "chimera/base/number.h"
#include "chimera/base/text.h"

namespace chimera {
namespace {

constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kTemporary = ".tmp-";
constexpr const char* kProbe = "probe.tmp-write";
constexpr std::string_view kProbeName = "probe";

bool is_temporary(const std::string& name) {
  const auto mark = name.find(kTemporary);
  return mark != std::string::npos &&
         (step_of(name.substr(0, mark)) || name.substr(0, mark) == kProbeName);
}

[[noreturn]] void fail_checkpoint(const std::string& path, const std::string& why) {
  throw Error(ErrorCode::kData, cat("the checkpoint '", path, "' ", why));
}

// Away under a temporary name first, so that no half of it stands under its own.
void remove_step(Disk& disk, const std::string& folder, std::int64_t step) {
  const std::string path = path_in(folder, step_name(step));
  const std::string away = temporary_step(folder, step, "old");
  if (disk.exists(away)) remove_all(disk, away);
  disk.rename(path, away);
  remove_all(disk, away);
}

bool is_whole_at_a_look(const Disk& disk, const std::string& path) {
  try {
    (void)open_checkpoint(disk, path);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::string step_name(std::int64_t step) {
  char text[32];
  std::snprintf(text, sizeof text, "step-%08lld", static_cast<long long>(step));
  return text;
}

std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kStepPrefix)) return {};
  const auto step = parse_number<std::int64_t>(std::string_view(name).substr(kStepPrefix.size()));
  if (!step || *step < 0 || name != step_name(*step)) return {};
  return step;
}

std::string temporary_step(const std::string& folder, std::int64_t step, const std::string& token) {
  return path_in(folder, cat(step_name(step), kTemporary, token));
}

std::vector<std::int64_t> list_steps(const Disk& disk, const std::string& folder) {
  std::vector<std::int64_t> steps;
  if (!disk.exists(folder)) return steps;
  for (const std::string& name : disk.list(folder)) {
    if (const auto step = step_of(name)) steps.push_back(*step);
  }
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

Manifest open_checkpoint(const Disk& disk, const std::string& path) {
  const std::string source = path_in(path, kManifestFile);
  if (!disk.exists(path)) fail_checkpoint(path, "does not exist");
  if (!disk.exists(source)) fail_checkpoint(path, cat("has no ", kManifestFile));
  Manifest manifest = parse_manifest(read_whole(disk, source), source);
  for (const auto& [name, digest] : manifest.files) {
    const std::string file = path_in(path, name);
    if (!disk.exists(file)) fail_checkpoint(path, cat("has no file '", name, "'"));
    if (const std::uint64_t seen = disk.size(file); seen != digest.bytes) {
      fail_checkpoint(path, cat("has ", seen, " bytes in '", name, "', expected ", digest.bytes));
    }
  }
  return manifest;
}

void check_file(const Disk& disk, const std::string& path, const Manifest& manifest,
                const std::string& file, const WriteProgress& progress) {
  const std::string name = path_in(path, file);
  if (!disk.exists(name)) fail_checkpoint(path, cat("has no file '", file, "'"));
  if (digest_file(disk, name, progress) != manifest.files.at(file)) {
    fail_checkpoint(path, cat("has damage in '", file, "': its checksum is another"));
  }
}

Manifest check_checkpoint(const Disk& disk, const std::string& path) {
  Manifest manifest = open_checkpoint(disk, path);
  for (const auto& [name, digest] : manifest.files) check_file(disk, path, manifest, name);
  return manifest;
}

std::optional<std::int64_t> newest_whole(const Disk& disk, const std::string& folder,
                                         std::int64_t before) {
  for (const std::int64_t step : list_steps(disk, folder)) {
    if (step >= before) continue;
    try {
      (void)check_checkpoint(disk, path_in(folder, step_name(step)));
      return step;
    } catch (const Error&) {
      continue;
    }
  }
  return {};
}

void remove_temporaries(Disk& disk, const std::string& folder) {
  for (const std::string& name : disk.list(folder)) {
    if (is_temporary(name)) remove_all(disk, path_in(folder, name));
  }
}

void prepare_checkpoint_folder(Disk& disk, const std::string& folder) {
  disk.make_folder(folder);
  const std::string probe = path_in(folder, kProbe);
  write_synced(disk, probe, "x");
  disk.remove(probe);
  disk.sync_folder(folder);
  disk.sync_folder(folder_of(folder));
}

void commit_checkpoint(Disk& disk, const std::string& folder, const std::string& temporary,
                       const Manifest& manifest) {
  for (const auto& [name, digest] : manifest.files) {
    const std::string file = path_in(temporary, name);
    const bool there = disk.exists(file);
    if (there && disk.size(file) == digest.bytes) continue;
    throw Error(
        ErrorCode::kIo,
        cat("rank 0 sees ", there ? cat(disk.size(file), " bytes of") : std::string("no file"),
            " '", file, "', of which another rank wrote ", digest.bytes,
            " bytes; is train.checkpoint_folder on a disk that all machines share?"));
  }
  write_synced(disk, path_in(temporary, kManifestFile), print(manifest));
  disk.sync_folder(temporary);
  const std::string path = path_in(folder, step_name(manifest.step));
  if (disk.exists(path)) remove_step(disk, folder, manifest.step);
  disk.rename(temporary, path);
  disk.sync_folder(folder);
}

void remove_older(Disk& disk, const std::string& folder, int keep) {
  int whole = 0;
  for (const std::int64_t step : list_steps(disk, folder)) {
    if (whole == keep) {
      remove_step(disk, folder, step);
    } else if (is_whole_at_a_look(disk, path_in(folder, step_name(step)))) {
      ++whole;
    }
  }
}

}  // namespace chimera
