// Checkpoints as folders: FOLDER/step-00000100/ has a manifest, and the files that it names.
//
// The rule that makes a power cut harmless: a checkpoint is written and synced under a temporary
// name, then renamed, then the parent is synced; only then are older ones removed. So a name
// without ".tmp-" is either whole or, if the disk broke its word or the file was damaged later,
// shown to be broken by the manifest's checksums. A power cut leaves the old checkpoint, or both.
//
// Knows no ranks, no tensors. One run writes to a folder at a time. Throws Error (kIo, kData).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "chimera/storage/disk.h"
#include "chimera/storage/manifest.h"

namespace chimera {

inline constexpr const char* kManifestFile = "manifest.json";

// "step-00000100"
[[nodiscard]] std::string step_name(std::int64_t step);
// Of such a name; nothing for others, temporary ones among them.
[[nodiscard]] std::optional<std::int64_t> step_of(const std::string& name);
// "FOLDER/step-00000100.tmp-<token>"
[[nodiscard]] std::string temporary_step(const std::string& folder, std::int64_t step,
                                         const std::string& token);

// Steps that have a folder, whole or not, newest first; none where there is no folder.
[[nodiscard]] std::vector<std::int64_t> list_steps(const Disk& disk, const std::string& folder);

// The manifest of a checkpoint whose files are there with the right sizes: a quick look. Throws
// Error (kData) that says what is wrong.
[[nodiscard]] Manifest open_checkpoint(const Disk& disk, const std::string& path);

// Reads a file of the checkpoint and compares; throws Error (kData) if it is damaged.
void check_file(const Disk& disk, const std::string& path, const Manifest& manifest,
                const std::string& file, const WriteProgress& progress = {});

// The whole checkpoint, each byte: open_checkpoint and check_file of all.
[[nodiscard]] Manifest check_checkpoint(const Disk& disk, const std::string& path);

// The newest step whose checkpoint is whole, of those before `before`; nothing if there is none.
[[nodiscard]] std::optional<std::int64_t> newest_whole(const Disk& disk, const std::string& folder,
                                                       std::int64_t before);

// Removes what runs that ended in the middle of a checkpoint left behind.
void remove_temporaries(Disk& disk, const std::string& folder);

// Makes the folder where there is none, and proves that a checkpoint can be written to it.
void prepare_checkpoint_folder(Disk& disk, const std::string& folder);

// The end of a checkpoint of which `temporary` holds all files but the manifest, each synced:
// writes the manifest and gives the folder its name. What stood under that name must be of no
// more use. Throws Error (kIo) for a file that is not there as the manifest says.
void commit_checkpoint(Disk& disk, const std::string& folder, const std::string& temporary,
                       const Manifest& manifest);

// Removes all but the `keep` newest that are whole at a quick look, and what is newer than those.
void remove_older(Disk& disk, const std::string& folder, int keep);

}  // namespace chimera
