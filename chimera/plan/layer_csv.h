// Others' measurements of layers.
#pragma once

#include <string_view>

#include "chimera/plan/profile.h"

namespace chimera {

// One kind of layer from a table as the authors of Chimera and PipeFisher publish them: CSV with
// the columns bs, time_f, time_b (ms of one micro-batch), mem_param, mem_act, mem_peak_err (MiB).
// They do not say how large messages are: `message_bytes` of one sequence.
[[nodiscard]] LayerKind parse_layer_csv(std::string_view text, std::string_view source,
                                        double message_bytes);

}  // namespace chimera
