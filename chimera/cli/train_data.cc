#include "chimera/cli/train_data.h"

#include <cstring>

#include "chimera/base/check.h"
#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/runtime/tags.h"

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

void tell_summary(Transport& transport, const DataSummary& summary) {
  for (int rank = 1; rank < transport.size(); ++rank) {
    Message message = make_message(DType::kInt64, {3});
    std::memcpy(message.data, &summary, sizeof summary);
    transport.send(std::move(message), rank, kAgreementTag);
  }
}

DataSummary hear_summary(Transport& transport) {
  const Message message = transport.recv(0, kAgreementTag, kForever).value();
  DataSummary summary;
  CHECK(message.bytes() == sizeof summary);
  std::memcpy(&summary, message.data, sizeof summary);
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

// Only stages at the ends ask for tokens, and their ranks have opened the text.
std::int64_t UnreadDataset::vocabulary() const {
  check_failed(__FILE__, __LINE__, "a rank without an end stage reads data");
}
std::int64_t UnreadDataset::tokens(std::int64_t, int) const {
  check_failed(__FILE__, __LINE__, "a rank without an end stage reads data");
}
TokenBatch UnreadDataset::read(std::int64_t, int) const {
  check_failed(__FILE__, __LINE__, "a rank without an end stage reads data");
}

}  // namespace chimera
