#include "chimera/train/sample.h"

#include <torch/torch.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <system_error>

#include "chimera/base/error.h"
#include "chimera/base/file.h"
#include "chimera/base/random.h"
#include "chimera/base/text.h"
#include "chimera/storage/step_folder.h"
#include "chimera/train/checkpoint_file.h"

namespace chimera {
namespace {

constexpr const char* kWeights = "model.safetensors";
constexpr const char* kConfig = "config.toml";
constexpr const char* kTransformers = "config.json";
constexpr const char* kConfigKey = "chimera.config";  // in the metadata of the weights
constexpr std::uint32_t kSampling = 0x53414D50;       // a purpose of random numbers of its own

bool is_checkpoint(const std::filesystem::path& directory) {
  return std::filesystem::exists(directory / kManifestFile);
}

// Where a save was cut off there is no config.toml; then the weights have it.
Config read_config(const std::filesystem::path& directory) {
  Config config;
  std::error_code error;
  if (!std::filesystem::exists(directory / kConfig, error) &&
      std::filesystem::exists(directory / kWeights, error)) {
    const Metadata metadata = SafetensorsFile(directory / kWeights).metadata();
    const auto text = metadata.find(kConfigKey);
    if (text != metadata.end())
      config = parse_config(text->second, (directory / kWeights).string());
  }
  if (config.model.layers == 0) config = load_config((directory / kConfig).string(), {});
  validate(config.model);
  return config;
}

void load_checkpoint(const std::filesystem::path& directory, ParameterStore& store) {
  const RealDisk disk;
  CheckpointFile file(directory.string(), check_checkpoint(disk, directory.string()));
  const at::NoGradGuard no_grad;
  for (const auto& [name, parameter] : store.parameters()) {
    at::Tensor value = parameter.value;
    value.copy_(file.read(name, parameter.spec.shape));
  }
  store.values_changed();
}

// As Hugging Face's GPT2Config names it.
std::string transformers_config(const ModelSpec& model) {
  const bool is_double = model.parameter_dtype() == DType::kFloat64;
  const nlohmann::ordered_json json = {{"model_type", "gpt2"},
                                       {"architectures", {"GPT2LMHeadModel"}},
                                       {"vocab_size", model.vocabulary},
                                       {"n_positions", model.position_count()},
                                       {"n_embd", model.hidden},
                                       {"n_layer", model.layers},
                                       {"n_head", model.heads},
                                       {"activation_function", "gelu_new"},
                                       {"layer_norm_epsilon", 1e-5},
                                       {"resid_pdrop", model.dropout},
                                       {"embd_pdrop", model.dropout},
                                       {"attn_pdrop", model.dropout},
                                       {"tie_word_embeddings", model.tied},
                                       {"torch_dtype", is_double ? "float64" : "float32"},
                                       {"bos_token_id", nullptr},
                                       {"eos_token_id", nullptr}};
  return json.dump(2) + "\n";
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
  if (is_checkpoint(directory)) {
    load_checkpoint(directory, store_);
  } else {
    load_weights(directory / kWeights, config_.model, store_);
  }
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
  RealDisk disk;
  for (const char* name : {kConfig, kTransformers}) {
    const std::string path = (directory / name).string();
    if (disk.exists(path)) disk.remove(path);
  }
  disk.sync_folder(directory.string());
  write_safetensors(directory / kWeights, weights, {{"format", "pt"}, {kConfigKey, print(config)}});
  write_file((directory / kConfig).string(), print(config));
  write_file((directory / kTransformers).string(), transformers_config(config.model));
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
