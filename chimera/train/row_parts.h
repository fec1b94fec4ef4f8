// Which part of a worker's row is one step of training.
//
// A synchronous program is one step: the whole row. An asynchronous one is the whole run, and a
// worker's step ends with its last S of the step's micro-batches; what it did ahead for later steps
// comes before that. So steps of different workers overlap in time, as they should.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "chimera/schedule/schedule.h"

namespace chimera {

class RowParts {
 public:
  // Keeps a reference to the program.
  RowParts(const Program& program, int micros_per_step);

  // Without what belongs to micro-batches from `end_micro` on: how a run ends early.
  [[nodiscard]] Row part(int worker, std::int64_t step,
                         std::int64_t end_micro = std::numeric_limits<std::int64_t>::max()) const;

  // The forwards of one step and their messages, with the newest weights: what evaluation runs.
  [[nodiscard]] Row forwards(int worker) const;

 private:
  const Program& program_;
  int micros_per_step_;
  bool whole_;                                  // a row is a step
  std::vector<std::vector<std::size_t>> ends_;  // by worker and step
};

}  // namespace chimera
