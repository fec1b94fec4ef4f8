#include "chimera/job/vocabulary.h"

#include <limits>
#include <utility>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/data/token_file.h"
#include "chimera/data/tokenizer.h"

namespace chimera {

Config with_vocabulary(Config config, std::int64_t of_data) {
  if (config.model.vocabulary == 0) {
    constexpr int kMost = std::numeric_limits<int>::max();
    if (of_data > kMost) {
      throw Error(ErrorCode::kData,
                  cat("the data's vocabulary is ", of_data, "; expected at most ", kMost));
    }
    config.model.vocabulary = static_cast<int>(of_data);
  }
  validate(config.model);
  return config;
}

Config with_vocabulary(Config config) {
  const auto tokenizer = make_tokenizer(config.data.tokenizer);
  const std::int64_t of_data =
      config.model.vocabulary == 0 ? text_vocabulary(config.data.text, *tokenizer) : 0;
  return with_vocabulary(std::move(config), of_data);
}

}  // namespace chimera
