#include "chimera/cli/train_progress.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <sstream>

#include "chimera/base/text.h"

namespace chimera {
namespace {

constexpr std::chrono::milliseconds kTerminalPause{100};
constexpr std::chrono::seconds kPlainPause{5};

std::string clock_time(double seconds) {
  const auto whole = static_cast<long>(std::ceil(seconds));
  std::ostringstream out;
  out << whole / 60 << ":" << std::setw(2) << std::setfill('0') << whole % 60;
  return out.str();
}

}  // namespace

TrainProgress::TrainProgress(std::int64_t steps, bool terminal, int columns)
    : steps_(steps), terminal_(terminal), columns_(columns) {}

bool TrainProgress::is_due(const StepLine& line) const {
  if (line.step == 1 || line.step == steps_) return true;
  const auto since = std::chrono::steady_clock::now() - last_shown_;
  return terminal_ ? since >= kTerminalPause : since >= kPlainPause;
}

std::string TrainProgress::bar(std::int64_t step, int width) const {
  const double done = static_cast<double>(step) / static_cast<double>(steps_);
  std::string text(static_cast<std::size_t>(width), '.');
  text.replace(0, static_cast<std::size_t>(done * width), static_cast<std::size_t>(done * width),
               '#');
  return cat("[", text, "] ");
}

void TrainProgress::show(const StepLine& line) {
  mean_seconds_ = line.step <= 2 ? line.seconds : 0.9 * mean_seconds_ + 0.1 * line.seconds;
  if (!is_due(line)) return;
  last_shown_ = std::chrono::steady_clock::now();
  std::ostringstream out;
  out << std::fixed << "step " << line.step << "/" << steps_ << "  loss " << std::setprecision(4)
      << line.loss << "  " << std::setprecision(0) << line.tokens_per_s << " tokens/s  bubble "
      << std::setprecision(1) << 100 * line.bubble_ratio << "% (predicted "
      << 100 * line.predicted_bubble_ratio << "%)  ETA "
      << clock_time(mean_seconds_ * static_cast<double>(steps_ - line.step));
  std::string text = out.str();
  if (!terminal_) {
    std::cout << text << std::endl;
    return;
  }
  const int room = columns_ - static_cast<int>(text.size()) - 4;
  if (room >= 8) text = bar(line.step, std::min(room, 30)) + text;
  if (static_cast<int>(text.size()) >= columns_)
    text.resize(static_cast<std::size_t>(columns_ - 1));
  std::cout << "\r\033[K" << text << std::flush;
  open_line_ = true;
}

void TrainProgress::finish() {
  if (open_line_) std::cout << std::endl;
  open_line_ = false;
}

}  // namespace chimera
