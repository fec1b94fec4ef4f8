#include "chimera/data/dataset.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "chimera/base/error.h"

namespace chimera {
namespace {

// A text whose token at position p is p, so that a window shows where it is from.
TokenFile counting_text(std::int64_t count) {
  std::vector<Token> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), Token{0});
  TokenWriter writer = TokenWriter::unnamed("counting", count);
  writer.append(tokens);
  return writer.finish();
}

TextDataset counting_dataset(std::int64_t windows, int sequence, int batch, std::uint64_t seed) {
  return {counting_text(windows * sequence + 1), {sequence, batch, seed}};
}

std::string message(std::int64_t count, const SamplingOptions& options) {
  try {
    const TextDataset dataset(counting_text(count), options);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(TextDataset, ATargetIsTheTokenThatFollows) {
  const TextDataset dataset = counting_dataset(9, 4, 3, 0);
  const TokenBatch batch = dataset.read(0, 9);
  EXPECT_EQ(batch.samples, 9);
  EXPECT_EQ(batch.sequence, 4);
  ASSERT_EQ(batch.tokens.size(), 36U);
  ASSERT_EQ(batch.targets.size(), 36U);
  for (std::size_t i = 0; i < 36; ++i) {
    EXPECT_EQ(batch.tokens[i], dataset.window(static_cast<std::int64_t>(i / 4)) * 4 +
                                   static_cast<std::int64_t>(i % 4));
    EXPECT_EQ(batch.targets[i], batch.tokens[i] + 1);
  }
}

TEST(TextDataset, EveryWindowComesOnceAnEpochInADifferentOrder) {
  const TextDataset dataset = counting_dataset(50, 3, 8, 11);
  std::set<std::vector<std::int64_t>> orders;
  for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
    std::vector<std::int64_t> order;
    for (std::int64_t i = 0; i < 50; ++i) order.push_back(dataset.window(epoch * 50 + i));
    orders.insert(order);
    EXPECT_EQ(std::set<std::int64_t>(order.begin(), order.end()).size(), 50U);
  }
  EXPECT_EQ(orders.size(), 4U);
}

// Reported cases (docs/cases.md): H13.
TEST(TextDataset, StepsGoOnThroughTheEndOfAnEpoch) {  // 7 samples, batches of 3, 3 epochs
  const TextDataset dataset = counting_dataset(7, 2, 3, 5);
  std::vector<int> seen(7);
  for (std::int64_t step = 0; step < 7; ++step) {
    const TokenBatch batch = dataset.read(step * 3, 3);
    ASSERT_EQ(batch.tokens.size(), 6U);
    for (std::size_t s = 0; s < 3; ++s) ++seen[static_cast<std::size_t>(batch.tokens[2 * s] / 2)];
  }
  EXPECT_EQ(seen, std::vector<int>(7, 3));
}

// Reported cases (docs/cases.md): H13.
TEST(TextDataset, AnyCutOfAStepReadsTheSameSamples) {
  const TextDataset dataset = counting_dataset(30, 5, 12, 3);
  const TokenBatch whole = dataset.read(24, 12);
  for (const int width : {1, 2, 3, 5}) {
    for (const int micro_batch : {1, 2, 3, 5, 12}) {
      TokenBatch parts;
      for (const std::vector<MicroBatch>& group : cut(12, width, micro_batch).groups) {
        for (const MicroBatch& micro : group) {
          const TokenBatch part = dataset.read(24 + micro.first, micro.count);
          parts.tokens.insert(parts.tokens.end(), part.tokens.begin(), part.tokens.end());
          parts.targets.insert(parts.targets.end(), part.targets.begin(), part.targets.end());
        }
      }
      EXPECT_EQ(parts.tokens, whole.tokens);
      EXPECT_EQ(parts.targets, whole.targets);
    }
  }
}

TEST(TextDataset, TheOrderDependsOnTheSeedAndNotOnTheBatch) {
  const TokenBatch batch = counting_dataset(100, 4, 8, 1).read(0, 100);
  EXPECT_EQ(counting_dataset(100, 4, 25, 1).read(0, 100).tokens, batch.tokens);
  EXPECT_NE(counting_dataset(100, 4, 8, 2).read(0, 100).tokens, batch.tokens);
}

TEST(TextDataset, AnEmptyMicroBatchHasNoTokens) {
  const TokenBatch batch = counting_dataset(4, 4, 1, 1).read(2, 0);
  EXPECT_EQ(batch.samples, 0);
  EXPECT_TRUE(batch.tokens.empty());
}

TEST(TextDataset, WindowsAreCountedWithTheirLastTarget) {
  struct Case {
    std::int64_t tokens;
    std::int64_t windows;
  };
  for (const Case& c : {Case{5, 1}, Case{8, 1}, Case{9, 2}, Case{12, 2}, Case{13, 3}}) {
    const TextDataset dataset(counting_text(c.tokens), {4, 1, 0});
    EXPECT_EQ(dataset.windows(), c.windows);
    EXPECT_EQ(dataset.read(0, static_cast<int>(c.windows)).samples, c.windows);
  }
}

// Reported cases (docs/cases.md): S4.
TEST(TextDataset, RefusesATextShorterThanAWindow) {
  EXPECT_EQ(message(4, {4, 1, 0}),
            "the text 'counting' has 4 tokens, less than one window of 5 (sequence and one "
            "target); use a longer text or a shorter sequence");
}

// Reported cases (docs/cases.md): S4.
TEST(TextDataset, RefusesATextShorterThanABatchNamingBothNumbers) {
  EXPECT_EQ(message(15, {4, 8, 0}),
            "the text 'counting' has 3 windows of 4 tokens, fewer than the batch of 8 samples; use "
            "a longer text, a smaller batch or a shorter sequence");
}

TEST(TextDataset, RefusesCountsBelowOne) {
  EXPECT_EQ(message(9, {0, 1, 0}), "sequence is 0 and batch is 1; both must be at least 1");
  EXPECT_EQ(message(9, {4, -1, 0}), "sequence is 4 and batch is -1; both must be at least 1");
}

TEST(TextDataset, FingerprintTellsTextsApart) {
  const std::uint64_t first = counting_dataset(100, 4, 1, 1).fingerprint();
  EXPECT_EQ(first, counting_dataset(100, 4, 1, 2).fingerprint());  // the seed is not of the text
  EXPECT_NE(first, counting_dataset(101, 4, 1, 1).fingerprint());
  EXPECT_NE(first, counting_dataset(1, 4, 1, 1).fingerprint());
}

}  // namespace
}  // namespace chimera
