// A model's vocabulary, where its configuration leaves that to the data (model.vocabulary = 0).
#pragma once

#include <cstdint>

#include "chimera/job/config.h"

namespace chimera {

// The configuration with the vocabulary of its data. Throws Error (kData) for more tokens than a
// model takes, (kUsage) for a model that cannot be.
[[nodiscard]] Config with_vocabulary(Config config, std::int64_t of_data);

// The same before the data is read (text_vocabulary). Throws Error also for a tokenizer that there
// is not.
[[nodiscard]] Config with_vocabulary(Config config);

}  // namespace chimera
