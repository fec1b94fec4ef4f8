// What documents say that the program prints is what it prints. In a block of a document a line
// that begins with "$ chimera " is a command, and the lines up to the next one, or to the end of
// the block, are its output. CHIMERA_UPDATE_DOCS=1 build/cli_test --gtest_filter='Docs*' writes the
// output anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/program.h"

namespace chimera::cli {
namespace {

constexpr std::string_view kPrompt = "$ chimera ", kFence = "```";

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// The document with the output that the commands give now; counts the commands.
std::string with_output(const std::string& document, int& commands) {
  std::string out;
  bool in_block = false, in_output = false;
  for (const std::string& line : lines_of(document)) {
    const bool is_fence = line.rfind(kFence, 0) == 0;
    if (is_fence) in_block = !in_block;
    if (is_fence) in_output = false;
    const bool is_command = in_block && line.rfind(kPrompt, 0) == 0;
    if (in_output && !is_command) continue;
    out += line + "\n";
    if (!is_command) continue;
    in_output = true;
    ++commands;
    const Result result = run(line.substr(kPrompt.size()));
    EXPECT_EQ(result.code, 0) << line << "\n" << result.err;
    out += result.out;
  }
  return out;
}

TEST(Docs, ShowWhatTheProgramPrints) {
  int commands = 0;
  std::vector<std::string> paths = {"README.md"};
  for (const auto& entry : std::filesystem::directory_iterator("docs")) {
    if (entry.path().extension() == ".md") paths.push_back(entry.path());
  }
  for (const std::string& path : paths) {
    const std::string text = read(path), now = with_output(text, commands);
    if (std::getenv("CHIMERA_UPDATE_DOCS") != nullptr && now != text) write(path, now);
    EXPECT_EQ(read(path), now) << path;
  }
  EXPECT_GE(commands, 10);
}

}  // namespace
}  // namespace chimera::cli
