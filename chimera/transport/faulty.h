// faulty: a transport that does harm on purpose, to show that what stands above it finds it. A
// decorator, below `checked` and above what really carries messages.
//
// What is hit is a function of the plan, the rank and a count of what that rank has sent: the same
// in every run. It harms on the sending side, so each rank of the job wraps its own transport.
// Uses the inner transport from the rank's own thread alone, and never waits in send: what it
// delays goes out, in order, during a later call, at the latest when the transport is destroyed.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "chimera/transport/transport.h"

namespace chimera {

// How `checked` finds it is said behind each.
enum class FaultKind : std::uint8_t {
  kDrop,       // the message never comes: the next one is out of order, or the wait ends
  kDelay,      // the message or sum begins later, and all that follows: no error, same numbers
  kDuplicate,  // the message comes twice: the second is out of order
  kTruncate,  // an element is missing, from a message or a member's part of a sum: the sizes differ
  kCorrupt,   // one bit is another: the checksum differs, where checksums are on
  kReorder,   // the next message of the channel overtakes it: out of order; dropped if none follows
};

inline constexpr std::array<std::string_view, 6> kFaultKinds = {"drop",     "delay",   "duplicate",
                                                                "truncate", "corrupt", "reorder"};

inline constexpr int kEveryRank = -1;

// Which of the things that a rank sends are hit. Counted are those that the kind can harm: drop,
// duplicate and reorder any message; corrupt messages with bytes; truncate these and sums; delay
// everything.
struct FaultPlan {
  FaultKind kind = FaultKind::kDrop;
  int rank = kEveryRank;      // the sender
  std::uint64_t message = 0;  // the how-manieth, from 1; 0: each with the probability
  double probability = 0;
  bool once = true;  // with a probability: the first hit is the last
  std::uint64_t seed = 0;
  double delay_s = 0.01;  // the longest delay; each is a random part of it
};

// Owns `inner`. Throws Error (kUsage) for a plan that can hit nothing.
[[nodiscard]] std::unique_ptr<Transport> faulty(std::unique_ptr<Transport> inner,
                                                const FaultPlan& plan);

}  // namespace chimera
