// Disk: the calls through which what must survive a crash is written. The seam between the rules of
// what to do in which order (step_folder.h) and the file system, or a simulated one that loses what
// was not synced (testing.h).
//
// Stateless but for the disk itself; may be used by any thread. Failures throw Error (kIo) with the
// path, the system's reason, and what to try.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace chimera {

// A new file, written from its beginning. Closed by close(), which reports, or by the destructor,
// which does not.
class NewFile {
 public:
  virtual ~NewFile() = default;
  virtual void write(std::span<const std::byte> bytes) = 0;
  virtual void sync() = 0;  // what was written survives a power cut; its name need not
  virtual void close() = 0;
};

class Disk {
 public:
  virtual ~Disk() = default;

  // One that is there is fine. The folder that it is in must be there.
  virtual void make_folder(const std::string& path) = 0;
  // Replaces a file of that name.
  [[nodiscard]] virtual std::unique_ptr<NewFile> create(const std::string& path) = 0;
  // Within one file system, at once: a file over what is there, a folder to a name that is free.
  virtual void rename(const std::string& from, const std::string& to) = 0;
  // The names in the folder survive a power cut as they are now.
  virtual void sync_folder(const std::string& path) = 0;
  // A file, or an empty folder.
  virtual void remove(const std::string& path) = 0;

  // Names, sorted. Throws for what is no folder.
  [[nodiscard]] virtual std::vector<std::string> list(const std::string& folder) const = 0;
  [[nodiscard]] virtual bool exists(const std::string& path) const = 0;
  [[nodiscard]] virtual bool is_folder(const std::string& path) const = 0;
  [[nodiscard]] virtual std::uint64_t size(const std::string& path) const = 0;
  // Bytes from `offset` on, as many as there are but not more than fit; how many.
  [[nodiscard]] virtual std::size_t read(const std::string& path, std::uint64_t offset,
                                         std::span<std::byte> bytes) const = 0;
};

// The file system of this machine.
class RealDisk : public Disk {
 public:
  void make_folder(const std::string& path) override;
  std::unique_ptr<NewFile> create(const std::string& path) override;
  void rename(const std::string& from, const std::string& to) override;
  void sync_folder(const std::string& path) override;
  void remove(const std::string& path) override;
  std::vector<std::string> list(const std::string& folder) const override;
  bool exists(const std::string& path) const override;
  bool is_folder(const std::string& path) const override;
  std::uint64_t size(const std::string& path) const override;
  std::size_t read(const std::string& path, std::uint64_t offset,
                   std::span<std::byte> bytes) const override;
};

// "FOLDER/name"; the name itself where the folder is empty.
[[nodiscard]] std::string path_in(const std::string& folder, const std::string& name);
// The folder that holds it; "." for a bare name.
[[nodiscard]] std::string folder_of(const std::string& path);
// Without its folder.
[[nodiscard]] std::string name_of(const std::string& path);

// The whole of a small file.
[[nodiscard]] std::string read_whole(const Disk& disk, const std::string& path);

// A new file with this text, synced.
void write_synced(Disk& disk, const std::string& path, std::string_view text);

// A file or a folder with all that is in it.
void remove_all(Disk& disk, const std::string& path);

}  // namespace chimera
