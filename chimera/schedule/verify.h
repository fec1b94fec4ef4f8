// verify: the proof that a program can run and computes one step of training.
//
// Findings are data. An empty list of violations means, for any durations and any transport that
// keeps each channel in order and holds `capacity` messages in it: the program ends, computes every
// forward and backward of every micro-batch exactly once with its inputs there and with the same
// weights, and reduces every gradient after its last contribution and before its step. tests:
// verify_test.cc breaks good programs by the hundred and expects the right rule.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chimera/schedule/schedule.h"

namespace chimera {

enum class Rule {
  kShape,       // rows, stage, micro-batch, pipe or span outside the schedule's shape
  kPlacement,   // an action on a worker where the placement does not put its stage
  kMissing,     // a (micro-batch, stage) without its forward or backward
  kDuplicate,   // a second one
  kPipe,        // a micro-batch that changes pipes on its way
  kOrder,       // on one worker: backward before forward, weight before input gradient, ...
  kDependency,  // an action whose input is not there when it comes
  kChannel,     // a send without its receive or the other way; messages in another order than taken
  kProgress,    // workers that wait for each other in a circle
  kLifetime,    // a message sent before its buffer is filled or after it is freed
  kReduce,      // a gradient not reduced, reduced before its last contribution or twice
  kVersion,     // a backward that reads other weights than its forward; weights freed too early
  kStep,        // no step, two steps, work after it
  kCapacity,    // a channel that must hold more messages than the transport does
};

inline constexpr std::array<std::string_view, 14> kRuleNames = {
    "shape",   "placement", "missing",  "duplicate", "pipe",    "order", "dependency",
    "channel", "progress",  "lifetime", "reduce",    "version", "step",  "capacity"};

[[nodiscard]] constexpr std::string_view rule_name(Rule rule) {
  return kRuleNames[static_cast<std::size_t>(rule)];
}

struct Violation {
  Rule rule;
  int worker = 0;
  int position = 0;  // index in the worker's row of the program; its size where something lacks
  Action action;     // the action there, or the one that lacks
  std::string what;  // one sentence
};

// An ordered stream of messages from one worker to another.
struct Channel {
  int from = 0, to = 0;
  int messages = 0;  // in one step
  // The least number of sent but not yet received messages that the channel must be able to hold so
  // that the program ends, where each worker posts the sends and receives between two computations
  // together and goes on when all are done (paired send-receive). 0: a rendezvous is enough.
  int capacity = 0;
};

struct Verdict {
  std::vector<Violation> violations;
  std::vector<Channel> channels;  // by (from, to); filled when there is none but of capacity
  std::vector<int> peak_stash;    // per worker: most micro-batches whose activations it holds
  // Per worker: most stages' weights it holds, each version of a stage counted (M_theta's factor).
  std::vector<int> peak_versions;
  [[nodiscard]] bool ok() const { return violations.empty(); }
};

// `room`: how many messages each channel of the transport holds, with paired sends and receives; a
// program that needs more is refused. Nothing: as many as it needs.
[[nodiscard]] Verdict verify(const Program& program, std::optional<int> room = {});

// The row of a violation drawn in one or two lines of text, with the place marked by ^.
[[nodiscard]] std::string explain(const Program& program, const Violation& violation);

}  // namespace chimera
