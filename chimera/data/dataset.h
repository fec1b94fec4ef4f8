// Dataset: the sample of each number, for ever. The seam between training and where tokens are
// from.
//
// Sample 0 is the first of the first step, and numbers go on from step to step; what a number holds
// depends on the seed alone, never on how steps are cut into groups and micro-batches. A dataset is
// immutable: any thread may read, and a restart at any sample needs no state.
#pragma once

#include <cstdint>

#include "chimera/data/batch.h"
#include "chimera/data/token_file.h"

namespace chimera {

class Dataset {
 public:
  virtual ~Dataset() = default;

  [[nodiscard]] virtual std::int64_t vocabulary() const = 0;
  // Tokens to be predicted in samples [first, first + count): what a loss is the mean over.
  [[nodiscard]] virtual std::int64_t tokens(std::int64_t first, int count) const = 0;

  // Samples [first, first + count), all of one length; first and count are not negative.
  [[nodiscard]] virtual TokenBatch read(std::int64_t first, int count) const = 0;
};

struct SamplingOptions {
  int sequence = 0;
  int batch = 0;  // of one step; only to refuse a text that cannot fill one
  std::uint64_t seed = 0;
};

// Windows of sequence + 1 tokens of a text, each beginning at the last token of the one before, so
// that every token but the first is a target once; fewer than `sequence` tokens at the end are left
// out. Each epoch takes every window once, in an order of its own (permutation.h); the next one
// follows without a gap, so a mini-batch may span two.
class TextDataset final : public Dataset {
 public:
  // Throws Error (kUsage) for counts below 1, Error (kData) for a text with less than one window
  // or fewer windows than a batch has samples.
  TextDataset(TokenFile tokens, const SamplingOptions& options);

  [[nodiscard]] std::int64_t vocabulary() const override { return tokens_.vocabulary(); }
  [[nodiscard]] std::int64_t tokens(std::int64_t, int count) const override {
    return std::int64_t{sequence_} * count;
  }
  [[nodiscard]] TokenBatch read(std::int64_t first, int count) const override;

  // Windows of the text: the samples of one epoch.
  [[nodiscard]] std::int64_t windows() const { return windows_; }

  // 64 bits of some windows all over the text: other for other texts, all but surely.
  [[nodiscard]] std::uint64_t fingerprint() const;

  // The window that a sample is.
  [[nodiscard]] std::int64_t window(std::int64_t sample) const;

 private:
  TokenFile tokens_;
  int sequence_;
  std::uint64_t seed_;
  std::int64_t windows_;
};

}  // namespace chimera
