// Watch: ends a run that does not get on, and says who is to blame.
//
// A wait is no fault of the rank that waits: in a deep pipeline it may be as long as all that
// others compute meanwhile. So a rank is to blame that has been at one action for longer than the
// limit; and if no rank does anything but wait, for longer than the limit, the wait at the end of
// the chain is: what it is for was lost, or is never sent. Starting, and writing a checkpoint, have
// a longer limit of their own. Ranks that die or are silent are the lifeline's business.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "chimera/runtime/position.h"

namespace chimera {

struct WatchLimits {
  double limit_s = 30;     // one action, or nobody's
  double startup_s = 300;  // starting; writing a checkpoint
};

// The text that ends the run, if some rank is to blame; positions by rank.
[[nodiscard]] std::optional<std::string> find_culprit(std::span<const Position> positions,
                                                      const WatchLimits& limits);

struct WatchOptions {
  WatchLimits limits = {};
  // How long ranks may take to end once the run was aborted.
  double grace_s = 2;
  // Positions of all ranks, by rank; of none where someone else watches.
  std::function<std::vector<Position>()> look = {};
  // Called with find_culprit's text; aborts the run. May be called again if it goes on.
  std::function<void(const std::string& why)> on_stall = {};
  // The text of the abort, empty before it.
  std::function<std::string()> aborted = {};
  // For a rank that does not come back from what it does: prints the text and ends the process.
  std::function<void(const std::string& why)> hard_exit = {};
};

// Owns the thread that looks, from construction to destruction.
class Watch {
 public:
  explicit Watch(WatchOptions options);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  void look_until_stopped();
  void look_once();

  const WatchOptions options_;
  const double pause_s_;
  double last_look_s_, forgiven_until_s_ = 0;
  double aborted_s_ = 0;  // when the abort was seen; 0: none
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace chimera
