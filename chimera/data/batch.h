// A mini-batch, and how it is cut into the micro-batches of each group.
//
// A sample is one sequence. Its number within the mini-batch fixes what it holds, and the cut hands
// out ranges of numbers; so the set of samples of a step never depends on the cut.
//
//     cut(10, 2, 2):  group 0: [0 1] [2 3] [4]     group 1: [5 6] [7 8] [9]      N = 3
//
// Every group has the same N = ceil(ceil(batch / width) / micro_batch), since all of them run the
// same schedule. Samples are spread evenly, first over the groups and then over the micro-batches
// of each: sizes differ by one at most, so the loss of each has to be weighted by its own count.
// A micro-batch is empty only where a group has fewer samples than N (cut(3, 2, 1): group 1).
#pragma once

#include <cstdint>
#include <vector>

#include "chimera/data/tokenizer.h"

namespace chimera {

// Consecutive samples; row s of `tokens` and `targets` is [s * sequence, (s + 1) * sequence), and
// a target is the token that follows.
struct TokenBatch {
  int samples = 0;
  int sequence = 0;
  std::vector<Token> tokens;
  std::vector<Token> targets;
};

// Samples [first, first + count) of the mini-batch.
struct MicroBatch {
  int first = 0;
  int count = 0;

  friend bool operator==(const MicroBatch&, const MicroBatch&) = default;
};

struct Cut {
  int micros = 0;                               // N, of each group
  std::vector<std::vector<MicroBatch>> groups;  // groups[group][micro]
};

// `micro_batch` is the most samples in one micro-batch. Throws Error (kUsage) for a count below 1,
// for a micro-batch larger than the batch, and for fewer samples than groups.
[[nodiscard]] Cut cut(int batch, int width, int micro_batch);

}  // namespace chimera
