// run: the one switch over ops. What executes a row of a program implements Executor, as the
// runtime's worker does.
#pragma once

#include <span>

#include "chimera/schedule/action.h"

namespace chimera {

class Executor {
 public:
  virtual ~Executor() = default;

  virtual void forward(const Action& action) = 0;
  virtual void backward(const Action& action) = 0;  // B, I and W: action.op says which
  virtual void recompute(const Action& action) = 0;
  virtual void send(const Action& action) = 0;
  virtual void recv(const Action& action) = 0;
  virtual void reduce_begin(const Action& action) = 0;
  virtual void reduce_wait(const Action& action) = 0;
  virtual void stash_weights(const Action& action) = 0;
  virtual void free_weights(const Action& action) = 0;
  virtual void step(const Action& action) = 0;
};

// Calls the executor for each action in order, on the calling thread. What it throws passes
// through.
void run(std::span<const Action> row, Executor& executor);

}  // namespace chimera
