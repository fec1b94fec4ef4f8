#include "chimera/train/together.h"

#include <algorithm>
#include <vector>

#include "chimera/runtime/tags.h"

namespace chimera {

void wait_for_all(Transport& transport, const std::function<bool(double wait_s)>& done) {
  constexpr double kFirst = 1e-3, kMost = 0.2;
  const std::vector<int> everyone = all_ranks(transport);
  bool own = false;
  for (double slice_s = kFirst;; slice_s = std::min(2 * slice_s, kMost)) {
    own = own || done(slice_s);
    std::int64_t unfinished = own ? 0 : 1;
    const Buffer vote{DType::kInt64, reinterpret_cast<std::byte*>(&unfinished), 1};
    finish(*transport.all_reduce_sum(vote, everyone, kCheckpointBeatTag));
    if (unfinished == 0) return;
  }
}

void meet(Transport& transport) {
  wait_for_all(transport, [](double) { return true; });
}

}  // namespace chimera
