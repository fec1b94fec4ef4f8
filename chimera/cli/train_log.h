// The log of a training run: one JSON object a step.
#pragma once

#include <fstream>
#include <string>

#include "chimera/cli/train_progress.h"

namespace chimera {

class StepLog {
 public:
  // Writes nothing where `path` is empty; a run that goes on adds to what is there. Throws Error
  // (kIo).
  explicit StepLog(const std::string& path, bool goes_on = false);

  void write(const StepLine& line);

 private:
  void check() const;

  std::string path_;
  bool begins_anew_;  // with the next line: a run that is refused before it takes nothing away
  std::ofstream file_;
};

}  // namespace chimera
