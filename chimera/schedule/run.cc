#include "chimera/schedule/run.h"

namespace chimera {
namespace {

void run_action(const Action& action, Executor& executor) {
  switch (action.op) {
    case Op::kForward:
      return executor.forward(action);
    case Op::kBackward:
    case Op::kBackwardInput:
    case Op::kBackwardWeight:
      return executor.backward(action);
    case Op::kRecompute:
      return executor.recompute(action);
    case Op::kSendActivation:
    case Op::kSendGradient:
      return executor.send(action);
    case Op::kRecvActivation:
    case Op::kRecvGradient:
      return executor.recv(action);
    case Op::kReduceBegin:
      return executor.reduce_begin(action);
    case Op::kReduceWait:
      return executor.reduce_wait(action);
    case Op::kStashWeights:
      return executor.stash_weights(action);
    case Op::kFreeWeights:
      return executor.free_weights(action);
    case Op::kStep:
      return executor.step(action);
  }
}

}  // namespace

void run(std::span<const Action> row, Executor& executor) {
  for (const Action& action : row) run_action(action, executor);
}

}  // namespace chimera
