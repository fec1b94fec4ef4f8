#include "chimera/data/dataset.h"

#include <algorithm>
#include <utility>

#include "chimera/base/check.h"
#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/data/permutation.h"

namespace chimera {
namespace {

std::int64_t checked_windows(const TokenFile& tokens, const SamplingOptions& options) {
  if (options.sequence < 1 || options.batch < 1) {
    throw Error(ErrorCode::kUsage, cat("sequence is ", options.sequence, " and batch is ",
                                       options.batch, "; both must be at least 1"));
  }
  const std::int64_t windows = (tokens.count() - 1) / options.sequence;
  if (windows < 1) {
    throw Error(ErrorCode::kData,
                cat("the text '", tokens.path(), "' has ", tokens.count(),
                    " tokens, less than one window of ", std::int64_t{options.sequence} + 1,
                    " (sequence and one target); use a longer text or a shorter sequence"));
  }
  if (windows < options.batch) {
    throw Error(ErrorCode::kData,
                cat("the text '", tokens.path(), "' has ", windows, " windows of ",
                    options.sequence, " tokens, fewer than the batch of ", options.batch,
                    " samples; use a longer text, a smaller batch or a shorter sequence"));
  }
  return windows;
}

}  // namespace

TextDataset::TextDataset(TokenFile tokens, const SamplingOptions& options)
    : tokens_(std::move(tokens)),
      sequence_(options.sequence),
      seed_(options.seed),
      windows_(checked_windows(tokens_, options)) {}

std::int64_t TextDataset::window(std::int64_t sample) const {
  CHECK(sample >= 0);
  const Permutation order(static_cast<std::uint64_t>(windows_), seed_,
                          static_cast<std::uint64_t>(sample / windows_));
  return static_cast<std::int64_t>(order(static_cast<std::uint64_t>(sample % windows_)));
}

std::uint64_t TextDataset::fingerprint() const {
  constexpr std::int64_t kLooks = 64;
  std::uint64_t hash = 0xCBF29CE484222325;  // FNV-1a, a token at a time
  std::vector<Token> row(static_cast<std::size_t>(sequence_) + 1);
  for (std::int64_t look = 0; look < std::min(kLooks, windows_); ++look) {
    tokens_.read(look * (windows_ - 1) / std::max<std::int64_t>(kLooks - 1, 1) * sequence_, row);
    for (const Token token : row) {
      hash = (hash ^ static_cast<std::uint64_t>(token)) * 0x100000001B3;
    }
  }
  return hash;
}

TokenBatch TextDataset::read(std::int64_t first, int count) const {
  CHECK(first >= 0 && count >= 0);
  TokenBatch batch = {count, sequence_, {}, {}};
  const std::size_t length = static_cast<std::size_t>(sequence_);
  batch.tokens.reserve(length * static_cast<std::size_t>(count));
  batch.targets.reserve(length * static_cast<std::size_t>(count));
  std::vector<Token> row(length + 1);
  for (std::int64_t sample = first; sample < first + count; ++sample) {
    tokens_.read(window(sample) * sequence_, row);
    batch.tokens.insert(batch.tokens.end(), row.begin(), row.end() - 1);
    batch.targets.insert(batch.targets.end(), row.begin() + 1, row.end());
  }
  return batch;
}

}  // namespace chimera
