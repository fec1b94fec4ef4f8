// The arithmetic of all-reduce: the sum of several buffers, element by element, in the order given,
// written back to all of them. Which thread sums which part cannot change a bit of the result.
#pragma once

#include <cstddef>
#include <span>

#include "chimera/base/dtype.h"

namespace chimera {

// fp64, fp32, bf16, int64 and int32 can be summed; bytes and truth values cannot.
[[nodiscard]] bool can_sum(DType dtype);
// Throws Error (kUsage) for what cannot be.
void check_can_sum(DType dtype);

// Sums elements [begin, end) of `buffers` into each of them. bf16 is added in fp32 and rounded
// once, to nearest even; integers wrap around. The buffers do not overlap.
void sum_elements(DType dtype, std::span<std::byte* const> buffers, std::size_t begin,
                  std::size_t end) noexcept;

// The same sum of the first `elements` of `buffers`, written to `sum` alone, which may be one of
// them.
void sum_into(DType dtype, std::span<const std::byte* const> buffers, std::byte* sum,
              std::size_t elements) noexcept;

}  // namespace chimera
