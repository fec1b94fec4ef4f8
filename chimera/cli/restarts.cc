#include "chimera/cli/restarts.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/storage/disk.h"
#include "chimera/storage/step_folder.h"

extern char** environ;

namespace chimera {
namespace {

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (const std::string_view word : split(text, ' ')) {
    if (!word.empty()) words.emplace_back(word);
  }
  return words;
}

pid_t start(const std::vector<std::string>& command) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, words[0], nullptr, nullptr, words.data(), environ);
  if (failed == 0) return child;
  throw Error(ErrorCode::kIo, cat("cannot start '", command[0], "': ", std::strerror(failed)));
}

// Signals that ask a run to stop go to the child, which ends cleanly; then nothing is started
// again. The child has a terminal's Ctrl-C already, and a second one would end it at once.
volatile sig_atomic_t child_to_stop = 0;
volatile sig_atomic_t stop_asked = 0;

void hand_on(int signal, siginfo_t* from, void*) {
  const bool is_new = stop_asked == 0;
  stop_asked = signal;
  if (is_new && child_to_stop > 0 && from->si_code != SI_KERNEL) ::kill(child_to_stop, signal);
}

void hand_signals_on() {
  struct sigaction action = {};
  action.sa_sigaction = hand_on;
  action.sa_flags = SA_SIGINFO;
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) ::sigaction(signal, &action, nullptr);
}

// As a shell counts: 128 and the signal for a child that was killed.
int wait_for(pid_t child) {
  child_to_stop = child;
  if (stop_asked != 0) ::kill(child, stop_asked);  // asked while the child was being started
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  child_to_stop = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool is_worth_another_run(int code) {
  constexpr int kNoSuchCommand = 127;
  return code > exit_code(ErrorCode::kIo) && code != kNoSuchCommand;
}

bool has_checkpoints(const std::string& folder) { return !list_steps(RealDisk(), folder).empty(); }

// Faults on purpose are of the first run alone, or no other would come through.
void forget_fault(std::vector<std::string>& command) {
  const auto fault = std::find(command.begin(), command.end(), "--fault");
  if (fault != command.end()) command.erase(fault, fault + 2);
}

// From the newest checkpoint, whatever the first run went on from.
void resume_latest(std::vector<std::string>& command) {
  const auto resume = std::find(command.begin(), command.end(), "--resume");
  if (resume != command.end()) command.erase(resume, resume + 2);
  command.insert(command.end(), {"--resume", "latest"});
}

}  // namespace

int run_with_restarts(const std::vector<std::string>& arguments, const RestartOptions& options) {
  std::vector<std::string> command = words_of(options.launch);
  command.push_back(std::filesystem::read_symlink("/proc/self/exe").string());
  command.insert(command.end(), arguments.begin(), arguments.end());
  hand_signals_on();
  for (int run = 1;; ++run) {
    const int code = wait_for(start(command));
    if (!is_worth_another_run(code) || stop_asked != 0 || run > options.restarts) return code;
    const bool has_more = has_checkpoints(options.checkpoints);
    std::cerr << cat("chimera: run ", run, " of at most ", options.restarts + 1,
                     " failed with exit code ", code, "; starting again ",
                     has_more ? "from the last good checkpoint" : "from the beginning", "\n")
              << std::flush;
    forget_fault(command);
    if (has_more) resume_latest(command);
  }
}

}  // namespace chimera
