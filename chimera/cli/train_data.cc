#include "chimera/cli/train_data.h"

#include <cstring>

#include "chimera/base/check.h"
#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/runtime/tags.h"
#include "chimera/runtime/told.h"

namespace chimera {

TextDataset open_data(const Config& config) {
  if (config.data.text.empty()) {
    throw Error(ErrorCode::kUsage, "data.text is empty; expected the path of a text file");
  }
  const auto tokenizer = make_tokenizer(config.data.tokenizer);
  return {
      open_text(config.data.text, *tokenizer),
      {.sequence = config.model.sequence, .batch = config.train.batch, .seed = config.train.seed}};
}

DataSummary summary(const TextDataset& dataset) {
  return {dataset.vocabulary(), dataset.windows(),
          static_cast<std::int64_t>(dataset.fingerprint())};
}

DataSummary share_summary(Transport& transport, const DataSummary& own) {
  const std::string bytes(reinterpret_cast<const char*>(&own), sizeof own);
  const std::string told = told_by_rank_0(transport, kAgreementTag, bytes);
  DataSummary summary;
  CHECK(told.size() == sizeof summary);
  std::memcpy(&summary, told.data(), sizeof summary);
  return summary;
}

void check_same_text(const Config& config, int rank, const DataSummary& own,
                     const DataSummary& of_rank_0) {
  if (own == of_rank_0) return;
  throw Error(ErrorCode::kData,
              cat("the text '", config.data.text, "' is another one on rank ", rank, " (",
                  own.windows, " sequences) than on rank 0 (", of_rank_0.windows,
                  " sequences); all machines must see the same file"));
}

namespace {

// Only stages at the ends ask for tokens, and their ranks have opened the text.
[[noreturn]] void refuse_read() {
  check_failed(__FILE__, __LINE__, "a rank without an end stage reads data");
}

}  // namespace

std::int64_t UnreadDataset::vocabulary() const { refuse_read(); }
std::int64_t UnreadDataset::tokens(std::int64_t, int) const { refuse_read(); }
TokenBatch UnreadDataset::read(std::int64_t, int) const { refuse_read(); }

}  // namespace chimera
