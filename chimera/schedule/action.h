// An Action is one thing that one worker does: the instruction of the schedule language.
//
// A trivial value. It names its stage, its micro-batch and the pipe (copy of the model) that the
// micro-batch flows through; where that happens is the placement's business (placement.h).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace chimera {

enum class Op : std::uint8_t {
  kForward,
  kBackward,        // both gradients, of the input and of the weights
  kBackwardInput,   // the gradient of the input alone (I)
  kBackwardWeight,  // the gradient of the weights alone (W), later
  kRecompute,       // forward again, for a stash that was not kept
  // Point-to-point. The stage is the sender's or receiver's own: stage s sends its activation to
  // s + 1 and its gradient to s - 1, receives its input from s - 1 and its gradient from s + 1.
  kSendActivation,
  kRecvActivation,
  kSendGradient,
  kRecvGradient,
  // The all-reduce of a stage's gradients over its stage group; `micro` and `pipe` are 0.
  kReduceBegin,
  kReduceWait,
  // Weight versions, of a stage that computes while another version of it is still needed
  // (PipeDream): stash keeps the newest version before the next step replaces it, free drops a
  // kept one. `micro` and `pipe` are 0.
  kStashWeights,
  kFreeWeights,
  // The optimizer's step. Of one stage, with all micro-batches up to `micro`, where the schedule
  // itself says when to step; else of all stages of the worker (kAllStages), at the row's end.
  kStep,
};

// The stage of a step that is of all stages of its worker.
inline constexpr std::int16_t kAllStages = -1;

struct OpInfo {
  std::string_view name;    // in messages
  std::string_view letter;  // in the text form
};

inline constexpr std::array<OpInfo, 14> kOps = {{
    {"forward", "F"},
    {"backward", "B"},
    {"backward-input", "I"},
    {"backward-weight", "W"},
    {"recompute", "R"},
    {"send-activation", "SEND_F"},
    {"recv-activation", "RECV_F"},
    {"send-gradient", "SEND_B"},
    {"recv-gradient", "RECV_B"},
    {"reduce-begin", "REDUCE"},
    {"reduce-wait", "WAIT"},
    {"stash-weights", "STASH"},
    {"free-weights", "FREE"},
    {"step", "S"},
}};

[[nodiscard]] constexpr const OpInfo& info(Op op) { return kOps[static_cast<std::size_t>(op)]; }

struct Action {
  Op op = Op::kForward;
  std::uint8_t span = 1;  // covers micro-batches [micro, micro + span)
  std::int16_t stage = 0;
  std::int16_t pipe = 0;
  // F, B, I, W, R and FREE: which weights, as how many steps ago they were the newest. 0: the
  // newest that the worker has.
  std::int16_t age = 0;
  std::int32_t micro = 0;

  friend bool operator==(const Action&, const Action&) = default;
};

using Row = std::vector<Action>;  // what one worker does, in order
using Rows = std::vector<Row>;    // one row a worker

[[nodiscard]] constexpr bool is_compute(Op op) { return op <= Op::kRecompute; }
// What a schedule says; the rest is put in by lower.
[[nodiscard]] constexpr bool in_schedule(Op op) { return is_compute(op) || op == Op::kStep; }
[[nodiscard]] constexpr bool is_send(Op op) {
  return op == Op::kSendActivation || op == Op::kSendGradient;
}
[[nodiscard]] constexpr bool is_recv(Op op) {
  return op == Op::kRecvActivation || op == Op::kRecvGradient;
}
// Frees the activations that the forward stashed.
[[nodiscard]] constexpr bool ends_stash(Op op) {
  return op == Op::kBackward || op == Op::kBackwardWeight;
}
// Yields the gradient of the stage's input.
[[nodiscard]] constexpr bool yields_gradient(Op op) {
  return op == Op::kBackward || op == Op::kBackwardInput;
}
// Adds to the gradient of the stage's weights.
[[nodiscard]] constexpr bool contributes(Op op) { return ends_stash(op); }

// The stage at the other end of a send or recv.
[[nodiscard]] constexpr int peer_stage(const Action& action) {
  const bool next = action.op == Op::kSendActivation || action.op == Op::kRecvGradient;
  return action.stage + (next ? 1 : -1);
}

// Of weights: reduction, versions and the step.
[[nodiscard]] constexpr bool is_update(Op op) { return op >= Op::kReduceBegin; }

// One word of the text form: <stage><op><micro>[+span][@pipe][~age], as in 3B2@1 (docs/formats.md).
[[nodiscard]] std::string to_string(const Action& action);

}  // namespace chimera
