// The CSV of torch.distributed.pipelining (docs/formats.md): what its runtimes load and dump as
// format="compute_only". One line a rank, one word an action, an empty cell where a rank idles.
//
//   0F0,0F1,,,0B0,,0B1
//   ,1F0,1B0,1F1,,1B1
//
// It has no headers: placement, stages and micro-batches are what the rows show. It knows one pipe,
// and of ops F, B, I and W. parse_csv(print_csv(schedule)) == schedule, but for the name, for every
// schedule that print_csv does not refuse.
#pragma once

#include <string>
#include <string_view>

#include "chimera/schedule/schedule.h"

namespace chimera {

// Throws Error (kUsage) that names the first action that the CSV cannot say, or that torch's
// runtime would take for another.
[[nodiscard]] std::string print_csv(const Schedule& schedule);

// The schedule is named after the file `source`, without folder and extension. Throws Error
// (kUsage) that names `source`, the line, the word and what was expected there. Checks the form
// only, as parse does: what the rows mean is verify's.
[[nodiscard]] Schedule parse_csv(std::string_view text, std::string_view source);

// By the name of the file: CSV where it ends in ".csv", else the text form (text_form.h).
[[nodiscard]] Schedule parse_file(std::string_view text, std::string_view source);

}  // namespace chimera
