// A Schedule says who computes what, in which order; a Program is the same with communication,
// gradient reduction and the optimizer's step put in: what workers run.
//
// Both are plain values and the only thing that generators, verifier, simulator and runtime
// share. A schedule may be wrong: verify (verify.h) says so, nothing here does.
#pragma once

#include <cstdint>
#include <string>

#include "chimera/schedule/action.h"
#include "chimera/schedule/placement.h"

namespace chimera {

// At most this many (stage, micro-batch) pairs in a schedule; more is refused, before memory is.
inline constexpr std::int64_t kMaxCells = std::int64_t{1} << 24;

struct Schedule {
  std::string name;
  int micros = 0;  // N: micro-batches of one group in one step
  Placement placement;
  // Compute actions, one row a worker. Steps too where a stage's weights change on the way
  // (asynchronous schedules); without any, all weights change once, after all work.
  Rows rows;

  [[nodiscard]] int stages() const { return placement.stages(); }
  [[nodiscard]] int workers() const { return placement.workers(); }
  [[nodiscard]] int pipes() const { return placement.pipes(); }

  friend bool operator==(const Schedule&, const Schedule&) = default;
};

// Whether the schedule itself says when weights change.
[[nodiscard]] bool has_steps(const Schedule& schedule);

struct Program {
  Schedule source;
  Rows rows;
};

// Each row so often, one after the other: steps that follow each other. Its actions name the
// micro-batches of one step, so it is for whoever takes channels and all-reduces in order.
[[nodiscard]] Program repeated(const Program& program, int times);

}  // namespace chimera
