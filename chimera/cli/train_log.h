// The log of a training run: one JSON object a step.
#pragma once

#include <fstream>
#include <string>

#include "chimera/cli/train_progress.h"

namespace chimera {

class StepLog {
 public:
  // Writes nothing where `path` is empty. Throws Error (kIo).
  explicit StepLog(const std::string& path);

  void write(const StepLine& line);

 private:
  void check() const;

  std::string path_;
  std::ofstream file_;
};

}  // namespace chimera
