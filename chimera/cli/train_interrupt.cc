#include "chimera/cli/train_interrupt.h"

#include <atomic>
#include <csignal>

namespace chimera {
namespace {

std::atomic<bool> asked_to_stop{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void note_interrupt(int) { asked_to_stop = true; }

}  // namespace

void catch_interrupts() {
  struct sigaction action = {};
  action.sa_handler = note_interrupt;
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);  // never ends a run at once: who sends it means well
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
}

bool interrupted() { return asked_to_stop; }

}  // namespace chimera
