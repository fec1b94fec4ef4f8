#include "chimera/train/sample.h"

#include <torch/torch.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <system_error>

#include "chimera/base/error.h"
#include "chimera/base/random.h"
#include "chimera/base/text.h"

namespace chimera {
namespace {

constexpr const char* kWeights = "model.safetensors";
constexpr const char* kConfig = "config.toml";
constexpr std::uint32_t kSampling = 0x53414D50;  // a purpose of random numbers of its own

Config read_config(const std::filesystem::path& directory) {
  Config config = load_config((directory / kConfig).string(), {});
  validate(config.model);
  return config;
}

void check_token(Token token, int vocabulary) {
  if (token >= 0 && token < vocabulary) return;
  throw Error(ErrorCode::kData,
              cat("the prompt has token ", token, ", outside the model's vocabulary of ",
                  vocabulary, "; use the tokenizer that it was trained with"));
}

// The index that a uniform number falls on.
Token draw(const at::Tensor& probabilities, double uniform) {
  const at::Tensor sums = probabilities.cumsum(0);
  const double target = uniform * sums[-1].item<double>();
  const at::Tensor at_target = at::searchsorted(sums, at::scalar_tensor(target, sums.options()),
                                                /*out_int32=*/false, /*right=*/true);
  return std::min<Token>(at_target.item<Token>(), probabilities.size(0) - 1);
}

}  // namespace

TrainedModel::TrainedModel(const std::filesystem::path& directory, at::Device device)
    : config_(read_config(directory)),
      store_(config_.train.seed, config_.model.dtype, device),
      model_(whole_model(config_.model, store_)) {
  load_weights(directory / kWeights, config_.model, store_);
}

Token TrainedModel::next(std::span<const Token> context, const SampleOptions& options,
                         std::uint64_t index) {
  const at::Tensor tokens =
      at::tensor(at::ArrayRef<Token>(context.data(), context.size()), at::kLong)
          .to(store_.device())
          .unsqueeze(0);
  const at::Tensor logits = model_.forward(tokens, {})[0][-1].to(at::kDouble).cpu();
  if (!logits.isfinite().all().item<bool>()) {
    throw Error(ErrorCode::kData,
                "the model's weights are no numbers any more; its training "
                "diverged, try a lower train.learning_rate");
  }
  if (options.temperature == 0) return logits.argmax().item<Token>();
  const RandomStream random(options.seed, kSampling);
  const at::Tensor scaled = (logits - logits.max()) / options.temperature;
  return draw(at::softmax(scaled, 0), random.uniform(index));
}

void TrainedModel::sample(std::vector<Token> prompt, const SampleOptions& options,
                          const std::function<void(Token)>& take) {
  if (prompt.empty()) {
    throw Error(ErrorCode::kUsage, "the prompt is empty; expected at least one token of text");
  }
  for (const Token token : prompt) check_token(token, config_.model.vocabulary);
  const at::NoGradGuard no_grad;
  const auto window = static_cast<std::size_t>(config_.model.sequence);
  for (int i = 0; i < options.tokens; ++i) {
    const std::size_t seen = std::min(prompt.size(), window);
    const std::span<const Token> context(prompt.data() + prompt.size() - seen, seen);
    prompt.push_back(next(context, options, static_cast<std::uint64_t>(i)));
    take(prompt.back());
  }
}

void save_model(const std::filesystem::path& directory, const Config& config,
                const NamedTensors& weights) {
  prepare_folder(directory);
  write_safetensors(directory / kWeights, weights, {{"format", "pt"}});
  const std::filesystem::path path = directory / kConfig;
  const std::filesystem::path partial = path.string() + ".partial";
  std::ofstream file(partial, std::ios::binary);
  file << print(config);
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(partial, path, error);
  if (!file || error) {
    std::filesystem::remove(partial, error);
    throw Error(ErrorCode::kIo, cat("cannot write '", path.string(), "'; is the disk full?"));
  }
}

void prepare_folder(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  std::string probe = (directory / ".chimera-XXXXXX").string();
  const int file = error ? -1 : ::mkstemp(probe.data());
  const bool writable = file >= 0 && ::write(file, "x", 1) == 1;
  if (file >= 0) {
    ::close(file);
    ::unlink(probe.c_str());
  }
  if (writable && !std::filesystem::is_directory(directory / kWeights) &&
      !std::filesystem::is_directory(directory / kConfig)) {
    return;
  }
  throw Error(ErrorCode::kIo, cat("cannot write to the folder '", directory.string(),
                                  "'; name one that exists or can be made, and is writable"));
}

}  // namespace chimera
