// checked: a transport that believes nobody. A decorator; the ranks of a job use it together.
//
// Compares with what the caller expects: tag and order of each message (a sequence number travels
// with it), bytes against shape; ranks and buffers that make no sense are refused before they go
// anywhere. Waits no longer than the limit: past it the call throws Error (kTimeout) that says who
// waited for whom, for which message, and for how long.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "chimera/transport/transport.h"

namespace chimera {

struct CheckedOptions {
  double limit_s = 30;                            // longest wait for a message or a sum
  std::function<std::string(Tag)> describe = {};  // a tag in words, for messages; or empty
  // Also compares a checksum of each message's bytes, which costs a pass over them on either side:
  // TCP and shared memory have their own, so it is for memory and links that are under suspicion.
  bool checksums = false;
};

// Owns `inner`.
[[nodiscard]] std::unique_ptr<Transport> checked(std::unique_ptr<Transport> inner,
                                                 CheckedOptions options = {});

}  // namespace chimera
