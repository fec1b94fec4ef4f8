// Whether all ranks are about to do the same: run once before anything else that they do together.
//
// Ranks that differ in program, model or sizes would wait for messages that nobody sends, or take
// the wrong ones; here the difference is named instead.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "chimera/transport/transport.h"

namespace chimera {

// Names and values, in an order that is the same on all ranks.
using Facts = std::vector<std::pair<std::string, std::string>>;

// Compares with rank 0's. Throws Error (kUsage) that names the first difference, on the rank that
// has it; the others learn of it from that rank's abort, in this or in a later call.
void agree(Transport& transport, const Facts& facts);

// A number that stands for a long text: 64 bits, FNV-1a, as sixteen hexadecimal digits.
[[nodiscard]] std::string digest(std::string_view text);

}  // namespace chimera
