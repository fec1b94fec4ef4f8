// Whether a run can go on from a checkpoint of another: the model and the order of the data must be
// the same; what changes the training is told; the layout is free.
#pragma once

#include <string>
#include <vector>

#include "chimera/job/config.h"
#include "chimera/storage/manifest.h"

namespace chimera {

// `path` is the checkpoint's, for messages; `config` this run's, its vocabulary filled in. Gives a
// line for each setting that differs and changes the training. Throws Error (kUsage) that names the
// first difference which cannot be, with both values.
[[nodiscard]] std::vector<std::string> check_same_run(const Manifest& manifest,
                                                      const std::string& path, const Config& config,
                                                      const DataIdentity& data);

}  // namespace chimera
