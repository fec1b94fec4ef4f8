// Text from a trained model, on one device.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "chimera/data/tokenizer.h"
#include "chimera/job/config.h"
#include "chimera/model/layer.h"
#include "chimera/model/safetensors.h"
#include "chimera/model/store.h"

namespace chimera {

struct SampleOptions {
  int tokens = 200;          // to add to the prompt
  double temperature = 0.8;  // 0: always the likeliest token
  std::uint64_t seed = 1;
};

// A model and how it was trained, as `train --save` or a checkpoint has them.
class TrainedModel {
 public:
  // Reads what `train --save` wrote (DIR/model.safetensors and DIR/config.toml), or the folder of a
  // checkpoint's step. Throws Error (kIo, kData, kUsage).
  explicit TrainedModel(const std::filesystem::path& directory, at::Device device = at::kCPU);

  [[nodiscard]] const Config& config() const { return config_; }

  // Hands on each token as it is drawn. The prompt has at least one token; the model sees the last
  // `sequence` ones. Throws Error (kData) for a token outside the vocabulary.
  void sample(std::vector<Token> prompt, const SampleOptions& options,
              const std::function<void(Token)>& take);

 private:
  [[nodiscard]] Token next(std::span<const Token> context, const SampleOptions& options,
                           std::uint64_t index);

  Config config_;
  ParameterStore store_;
  LayerChain model_;
};

// Writes what TrainedModel and, beside it, Hugging Face's transformers read. Weights never stand
// beside the configuration of others, whenever the process is killed: they carry their own, and
// the files with older ones go first. Throws Error (kIo).
void save_model(const std::filesystem::path& directory, const Config& config,
                const NamedTensors& weights);

// Makes the folder and proves that it can be written to, before hours of training. Throws Error
// (kIo).
void prepare_folder(const std::filesystem::path& directory);

}  // namespace chimera
