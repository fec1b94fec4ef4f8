// The data of a training run, on ranks that read it and on ranks that do not: of a run in several
// processes only those that hold the first or the last stage open the text.
#pragma once

#include <cstdint>

#include "chimera/data/dataset.h"
#include "chimera/job/config.h"
#include "chimera/transport/transport.h"

namespace chimera {

// What every rank must know of the data.
struct DataSummary {
  std::int64_t vocabulary = 0;
  std::int64_t windows = 0;
  std::int64_t fingerprint = 0;

  friend bool operator==(const DataSummary&, const DataSummary&) = default;
};

// Throws Error (kUsage, kIo, kData).
[[nodiscard]] TextDataset open_data(const Config& config);

[[nodiscard]] DataSummary summary(const TextDataset& dataset);

// Rank 0's, on every rank.
[[nodiscard]] DataSummary share_summary(Transport& transport, const DataSummary& own);

// Throws Error (kData) if this rank's text is not rank 0's.
void check_same_text(const Config& config, int rank, const DataSummary& own,
                     const DataSummary& of_rank_0);

// The dataset of a rank that reads none.
class UnreadDataset final : public Dataset {
 public:
  [[nodiscard]] std::int64_t vocabulary() const override;
  [[nodiscard]] std::int64_t tokens(std::int64_t first, int count) const override;
  [[nodiscard]] TokenBatch read(std::int64_t first, int count) const override;
};

}  // namespace chimera
