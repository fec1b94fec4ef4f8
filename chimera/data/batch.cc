#include "chimera/data/batch.h"

#include <string_view>

#include "chimera/base/error.h"
#include "chimera/base/text.h"

namespace chimera {
namespace {

void require_positive(std::string_view name, int value) {
  if (value >= 1) return;
  throw Error(ErrorCode::kUsage, cat(name, " is ", value, "; expected at least 1"));
}

void require_legal(int batch, int width, int micro_batch) {
  require_positive("batch", batch);
  require_positive("width", width);
  require_positive("micro_batch", micro_batch);
  if (micro_batch > batch) {
    throw Error(ErrorCode::kUsage,
                cat("micro_batch is ", micro_batch, ", more than the batch of ", batch,
                    " samples; lower micro_batch to at most ", batch, " or raise batch"));
  }
  if (batch < width) {
    throw Error(ErrorCode::kUsage,
                cat("batch is ", batch, ", fewer samples than the width of ", width,
                    " groups; raise batch to at least ", width, " or lower width"));
  }
}

// `samples` in `parts` consecutive ranges from `first` on, the larger ones in front.
std::vector<MicroBatch> spread(int first, int samples, int parts) {
  std::vector<MicroBatch> ranges;
  for (int part = 0; part < parts; ++part) {
    const int count = samples / parts + (part < samples % parts ? 1 : 0);
    ranges.push_back({first, count});
    first += count;
  }
  return ranges;
}

constexpr int ceil_divide(int value, int by) { return value / by + (value % by == 0 ? 0 : 1); }

}  // namespace

Cut cut(int batch, int width, int micro_batch) {
  require_legal(batch, width, micro_batch);
  Cut result;
  result.micros = ceil_divide(ceil_divide(batch, width), micro_batch);
  for (const MicroBatch& share : spread(0, batch, width)) {
    result.groups.push_back(spread(share.first, share.count, result.micros));
  }
  return result;
}

}  // namespace chimera
