// The runtime's message tags: what a message carries, or which gradients a sum is of.
//
// They need not be small: transports that cannot carry them rely on the order of channels, which
// verify has proved.
#pragma once

#include <string>

#include "chimera/transport/message.h"

namespace chimera {

// The activation or gradient of a micro-batch that `taker`, a stage, takes.
[[nodiscard]] constexpr Tag message_tag(bool is_gradient, int taker, int micro) {
  return (Tag{is_gradient} << 63) | (static_cast<Tag>(taker) << 32) | static_cast<Tag>(micro);
}

// The index-th part of the gradient that stages first..last (or first and last) contribute to.
[[nodiscard]] constexpr Tag reduce_tag(int first, int last, int index) {
  return (Tag{1} << 62) | (static_cast<Tag>(first) << 40) | (static_cast<Tag>(last) << 20) |
         static_cast<Tag>(index);
}

// What the two above were made of: of a message, the boundary between stages s and s + 1 that it
// crosses, by s; of a sum, the first stage.
[[nodiscard]] constexpr int boundary_of(Tag message) {
  const int taker = static_cast<int>((message >> 32) & 0x3FFFFFFF);
  return (message >> 63) != 0 ? taker : taker - 1;
}
[[nodiscard]] constexpr int stage_of(Tag reduction) {
  return static_cast<int>((reduction >> 40) & 0xFFFFF);
}

// The sums at the end of a step: loss, gradient norm, votes to stop.
inline constexpr Tag kStepTag = Tag{1} << 61;
// What ranks tell rank 0 after a step: when they did what, and their weights.
inline constexpr Tag kTimesTag = kStepTag + 1;
inline constexpr Tag kWeightsTag = kStepTag + 2;
// At the start: facts that all must agree on, and the time of clocks.
inline constexpr Tag kAgreementTag = kStepTag + 3;
inline constexpr Tag kClockTag = kStepTag + 4;
// What ranks tell rank 0 on the way and at the end: digests of their weights, and what they held.
inline constexpr Tag kReplicaTag = kStepTag + 5;
inline constexpr Tag kOutcomeTag = kStepTag + 6;
// Of checkpoints: what rank 0 tells the others, what was written, and signs of life on the way.
inline constexpr Tag kCheckpointTag = kStepTag + 7;
inline constexpr Tag kCheckpointFilesTag = kStepTag + 8;
inline constexpr Tag kCheckpointBeatTag = kStepTag + 9;

// In words, for messages.
[[nodiscard]] std::string describe_tag(Tag tag);

}  // namespace chimera
