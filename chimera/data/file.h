// The little of POSIX files that token files need: an owned descriptor and a read-only mapping.
//
// Failures throw Error (kIo, or kData for what is no file of data) with the path and the system's
// reason. A mapping may be read by any thread. A file that another program cuts while it is mapped
// is out of our hands: the system ends the process that reads past its new end.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace chimera {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();

  [[nodiscard]] int number() const { return number_; }

 private:
  int number_ = -1;
};

class MappedFile {
 public:
  // `what` is the file's role in messages: "text", "token file".
  [[nodiscard]] static MappedFile open(const std::string& path, std::string_view what);

  // Maps the whole of an open file; `path` is its name in messages. The descriptor may be closed
  // afterwards. An empty file is an Error.
  MappedFile(const Descriptor& file, std::string path, std::string_view what);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  [[nodiscard]] std::span<const unsigned char> bytes() const { return {data_, size_}; }
  [[nodiscard]] std::string_view text() const;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  const unsigned char* data_ = nullptr;
  std::size_t size_ = 0;
};

// A new file of which no name is left: it goes when the last descriptor and mapping do.
[[nodiscard]] Descriptor make_unnamed_file();

// Writes all bytes at the descriptor's position; `path` is for the message.
void write_all(const Descriptor& file, std::span<const unsigned char> bytes,
               const std::string& path);

// "cannot <verb> '<path>': <the system's reason>", as Error (kIo); reads errno.
[[noreturn]] void throw_system_error(std::string_view verb, const std::string& path);

}  // namespace chimera
