#include "tests/cli/program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

extern char** environ;

namespace chimera::cli {

namespace fs = std::filesystem;

namespace {

int spawn(const std::vector<std::string>& words, posix_spawn_file_actions_t& actions) {
  std::vector<char*> argv = {const_cast<char*>(CHIMERA_PROGRAM)};
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_t child = 0;
  const int failed =
      ::posix_spawn(&child, CHIMERA_PROGRAM, &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  EXPECT_EQ(failed, 0) << "cannot run " << CHIMERA_PROGRAM;
  return child;
}

int wait_for(pid_t child) {
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

Folder::Folder() {
  std::string pattern = (fs::temp_directory_path() / "chimera-cli-XXXXXX").string();
  path_ = ::mkdtemp(pattern.data());
}

Folder::~Folder() { fs::remove_all(path_); }

std::vector<std::string> Folder::names() const {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(path_)) found.push_back(entry.path().filename());
  std::sort(found.begin(), found.end());
  return found;
}

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

namespace {

// Runs the program with its streams in files; `meanwhile` is called with it running.
Result run_with(const std::vector<std::string>& words, const std::string& input,
                const std::string& output,
                const std::function<void(pid_t, const std::string& out)>& meanwhile) {
  const Folder folder;
  const std::string in = folder.file("in"), err = folder.file("err");
  const std::string out = output.empty() ? folder.file("out") : output;
  write(in, input);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, in.c_str(), O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT, 0600);
  ::posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_CREAT, 0600);
  Result result;
  const pid_t child = spawn(words, actions);
  if (meanwhile) meanwhile(child, out);
  result.code = wait_for(child);
  result.out = output.empty() ? read(out) : "";
  result.err = read(err);
  return result;
}

}  // namespace

Result run(const std::vector<std::string>& words, const std::string& input,
           const std::string& output) {
  return run_with(words, input, output, {});
}

Result run_and_signal(const std::vector<std::string>& words, int signal,
                      const std::function<bool(const std::string& out)>& is_time) {
  return run_with(words, "", "", [&](pid_t child, const std::string& out) {
    while (!is_time(read(out))) {
      siginfo_t state = {};
      ::waitid(P_PID, static_cast<id_t>(child), &state, WEXITED | WNOHANG | WNOWAIT);
      if (state.si_pid == child) return;  // it has ended by itself
      std::this_thread::yield();
    }
    ::kill(child, signal);
  });
}

Result run(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return run(words);
}

std::string run_on_terminal(const std::vector<std::string>& words, unsigned short columns) {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
  EXPECT_GE(master, 0);
  EXPECT_EQ(::grantpt(master), 0);
  EXPECT_EQ(::unlockpt(master), 0);
  const int terminal = ::open(::ptsname(master), O_RDWR | O_NOCTTY);
  const winsize size = {.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
  EXPECT_EQ(::ioctl(terminal, TIOCSWINSZ, &size), 0);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, terminal, 1);
  const pid_t child = spawn(words, actions);
  ::close(terminal);
  std::string text;
  char buffer[4096];
  for (ssize_t count; (count = ::read(master, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(count));
  }
  ::close(master);
  EXPECT_EQ(wait_for(child), 0);
  text.erase(std::remove(text.begin(), text.end(), '\r'), text.end());
  return text;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

void expect_error(const Result& result, int code, const std::string& part) {
  EXPECT_EQ(result.code, code) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err.rfind("chimera: error: ", 0), 0U) << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_TRUE(has(result.err, part)) << result.err << "lacks: " << part;
}

}  // namespace chimera::cli
