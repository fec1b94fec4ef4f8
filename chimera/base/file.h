// Whole files in and out, for modes. Failures throw Error (kIo) with the path and the reason.
#pragma once

#include <string>
#include <string_view>

namespace chimera {

// The bytes of a file, of up to 1 GiB; of standard input for "-".
[[nodiscard]] std::string read_file(const std::string& path);

// Writes to a temporary file beside `path` and renames it, so that the file is there whole or not
// at all. What is no regular file (/dev/null, a pipe) is written to directly.
void write_file(const std::string& path, std::string_view text);

// Throws what write_file would throw for a folder or file that cannot be written, and leaves no
// trace: for outputs of long runs, before them.
void check_writable(const std::string& path);

// To the file, as write_file does; to standard output where `path` is empty.
void deliver(std::string_view text, const std::string& path);

}  // namespace chimera
