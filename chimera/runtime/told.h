// Words between rank 0 and the others: the start of a run, and checkpoints, are settled by them.
//
// Bytes in, the same bytes out; what they mean is the caller's, and so is the tag. All ranks call
// told_by_rank_0 and told_to_rank_0 together.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chimera/transport/transport.h"

namespace chimera {

void send_text(Transport& transport, int to, Tag tag, std::string_view text);

// Nothing if none came within wait_s seconds.
[[nodiscard]] std::optional<std::string> recv_text(Transport& transport, int from, Tag tag,
                                                   double wait_s = kForever);

// What rank 0 says, on every rank; what the others give is not looked at.
std::string told_by_rank_0(Transport& transport, Tag tag, const std::string& text);

// What all ranks say, by rank, on rank 0; empty elsewhere.
[[nodiscard]] std::vector<std::string> told_to_rank_0(Transport& transport, Tag tag,
                                                      const std::string& text);

}  // namespace chimera
