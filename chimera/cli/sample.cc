// chimera sample: text from a model that `chimera train --save` wrote.
#include "chimera/train/sample.h"

#include <CLI/CLI.hpp>
#include <array>
#include <cmath>
#include <iostream>
#include <memory>
#include <string>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/cli/mode.h"

namespace chimera {
namespace {

struct Options {
  std::string folder, prompt;
  SampleOptions sample;
};

int sample(const Options& options) {
  if (options.sample.tokens < 1) {
    throw Error(ErrorCode::kUsage,
                cat("--tokens is ", options.sample.tokens, "; expected a number from 1"));
  }
  if (!(options.sample.temperature >= 0) || !std::isfinite(options.sample.temperature)) {
    throw Error(ErrorCode::kUsage,
                cat("--temperature is ", options.sample.temperature, "; expected a number from 0"));
  }
  TrainedModel model(options.folder);
  const auto tokenizer = make_tokenizer(model.config().data.tokenizer);
  std::cout << options.prompt;
  model.sample(encode(*tokenizer, options.prompt), options.sample, [&](Token token) {
    std::cout << tokenizer->decode(std::array{token}) << std::flush;
  });
  std::cout << std::endl;
  return kOk;
}

}  // namespace

RunMode add_sample(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  app.add_option("DIR", options->folder, "Folder that train --save wrote")->required();
  app.add_option("--prompt", options->prompt, "Text to go on from")->required();
  app.add_option("--tokens", options->sample.tokens, "Tokens to add")->capture_default_str();
  app.add_option("--temperature", options->sample.temperature,
                 "Below 1 plainer, above 1 wilder; 0: always the likeliest token")
      ->capture_default_str();
  app.add_option("--seed", options->sample.seed, "Another seed, another text")
      ->capture_default_str();
  app.footer("Example:\n  chimera sample build/demo --prompt \"In the beginning\" --tokens 300");
  return [options] { return sample(*options); };
}

}  // namespace chimera
