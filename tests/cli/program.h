// Runs the built program as a user would, and what tests say of the outcome.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace chimera::cli {

// A folder for one test, removed after it.
class Folder {
 public:
  Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder();

  [[nodiscard]] std::string file(const std::string& name) const { return path_ / name; }
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  std::filesystem::path path_;
};

[[nodiscard]] std::string read(const std::string& path);
void write(const std::string& path, const std::string& text);

struct Result {
  int code = -1;  // 128 + the signal that ended it
  std::string out, err;
};

// `output`: a file to take standard output instead of Result::out.
Result run(const std::vector<std::string>& words, const std::string& input = "",
           const std::string& output = "");

// Splits at blanks, for command lines without quotes.
Result run(const std::string& line);

// As run, but the program gets the signal once `is_time` says so.
Result run_and_signal(const std::vector<std::string>& words, int signal,
                      const std::function<bool(const std::string& out)>& is_time);

// What it writes to a terminal of this width.
std::string run_on_terminal(const std::vector<std::string>& words, unsigned short columns);

[[nodiscard]] bool has(const std::string& text, const std::string& part);

// One line on standard error that says `part`, nothing on standard output.
void expect_error(const Result& result, int code, const std::string& part);

}  // namespace chimera::cli
