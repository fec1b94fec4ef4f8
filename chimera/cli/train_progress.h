// What a person sees while training goes on: a bar in a terminal, plain lines elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace chimera {

// Of one step, as shown and logged.
struct StepLine {
  std::int64_t step = 0;  // from 1
  double loss = 0;
  double gradient_norm = 0;
  double learning_rate = 0;
  double tokens_per_s = 0;
  double bubble_ratio = 0;
  double predicted_bubble_ratio = 0;
  double seconds = 0;
};

class TrainProgress {
 public:
  TrainProgress(std::int64_t steps, bool terminal, int columns);

  void show(const StepLine& line);
  // Leaves the last state of the bar on its line.
  void finish();

 private:
  [[nodiscard]] bool is_due(const StepLine& line) const;
  [[nodiscard]] std::string bar(std::int64_t step, int width) const;

  std::int64_t steps_;
  bool terminal_;
  int columns_;
  bool open_line_ = false;
  double mean_seconds_ = 0;  // of a step, recent ones weighted more
  std::chrono::steady_clock::time_point last_shown_{};
};

}  // namespace chimera
