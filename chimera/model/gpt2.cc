#include "chimera/model/gpt2.h"

#include <torch/torch.h>

#include <cmath>
#include <string>

#include "chimera/base/text.h"

namespace chimera {
namespace {

constexpr double kNormEpsilon = 1e-5;

class Norm {
 public:
  Norm(const ParameterStore& store, const std::string& name)
      : weight_(store.at(name + ".weight")), bias_(store.at(name + ".bias")) {}

  [[nodiscard]] at::Tensor operator()(const at::Tensor& input) const {
    return at::layer_norm(input, {input.size(-1)}, weight_.use(), bias_.use(), kNormEpsilon);
  }

 private:
  const Parameter& weight_;
  const Parameter& bias_;
};

// x W + b with W [in, out], as GPT-2's files have it.
class Linear {
 public:
  Linear(const ParameterStore& store, const std::string& name)
      : weight_(store.at(name + ".weight")), bias_(store.at(name + ".bias")) {}

  [[nodiscard]] at::Tensor operator()(const at::Tensor& input) const {
    const at::Tensor weight = weight_.use();
    const at::Tensor rows = input.reshape({input.numel() / weight.size(0), weight.size(0)});
    return at::addmm(bias_.use(), rows, weight)
        .view({input.size(0), input.size(1), weight.size(1)});
  }

 private:
  const Parameter& weight_;
  const Parameter& bias_;
};

class Embedding final : public Layer {
 public:
  Embedding(const ModelSpec& spec, const ParameterStore& store)
      : dropout_(spec.dropout),
        tokens_(store.at("wte.weight")),
        positions_(store.at("wpe.weight")) {}

  at::Tensor forward(const at::Tensor& input, const Pass& pass) const override {
    const at::Tensor hidden =
        at::embedding(tokens_.use(), input) + positions_.use().narrow(0, 0, input.size(1));
    return dropout(hidden, dropout_, 0, DropoutSite::kEmbedding, pass);
  }

 private:
  double dropout_;
  const Parameter& tokens_;
  const Parameter& positions_;
};

// Attention whose probabilities are dropped, which the fused kernels cannot do with our masks.
at::Tensor attention_with_dropout(const at::Tensor& query, const at::Tensor& key,
                                  const at::Tensor& value, double probability, int layer,
                                  const Pass& pass) {
  const std::int64_t tokens = query.size(-2);
  const at::Tensor future = at::ones({tokens, tokens}, query.options().dtype(at::kBool)).triu_(1);
  const at::Tensor scores = at::matmul(query, key.transpose(-2, -1)) *
                            (1 / std::sqrt(static_cast<double>(query.size(-1))));
  const bool narrow = query.scalar_type() == at::kBFloat16;
  const at::Tensor chances =
      at::softmax(scores.masked_fill(future, -std::numeric_limits<double>::infinity()), -1,
                  narrow ? at::kFloat : query.scalar_type());
  const at::Tensor kept = dropout(chances, probability, layer, DropoutSite::kAttention, pass);
  return at::matmul(kept.to(query.scalar_type()), value);
}

class Attention {
 public:
  Attention(const ModelSpec& spec, int layer, const ParameterStore& store, const std::string& name)
      : layer_(layer),
        heads_(spec.heads),
        dropout_(spec.dropout),
        in_(store, name + ".c_attn"),
        out_(store, name + ".c_proj") {}

  [[nodiscard]] at::Tensor operator()(const at::Tensor& input, const Pass& pass) const {
    const std::int64_t batch = input.size(0), tokens = input.size(1), hidden = input.size(2);
    // [sequences, tokens, 3, heads, width] -> 3 of [sequences, heads, tokens, width]
    const at::Tensor all =
        in_(input).view({batch, tokens, 3, heads_, hidden / heads_}).permute({2, 0, 3, 1, 4});
    const at::Tensor mixed = mix(all.select(0, 0), all.select(0, 1), all.select(0, 2), pass);
    return dropout(out_(mixed.transpose(1, 2).reshape({batch, tokens, hidden})), dropout_, layer_,
                   DropoutSite::kAttentionOutput, pass);
  }

 private:
  [[nodiscard]] at::Tensor mix(const at::Tensor& query, const at::Tensor& key,
                               const at::Tensor& value, const Pass& pass) const {
    if (pass.training && dropout_ > 0) {
      return attention_with_dropout(query, key, value, dropout_, layer_, pass);
    }
    return at::scaled_dot_product_attention(query, key, value, /*attn_mask=*/{}, /*dropout_p=*/0,
                                            /*is_causal=*/true);
  }

  int layer_;
  std::int64_t heads_;
  double dropout_;
  Linear in_;
  Linear out_;
};

class Block final : public Layer {
 public:
  Block(const ModelSpec& spec, int layer, const ParameterStore& store, const std::string& name)
      : layer_(layer),
        dropout_(spec.dropout),
        norm_1_(store, name + ".ln_1"),
        attention_(spec, layer, store, name + ".attn"),
        norm_2_(store, name + ".ln_2"),
        widen_(store, name + ".mlp.c_fc"),
        narrow_(store, name + ".mlp.c_proj") {}

  at::Tensor forward(const at::Tensor& input, const Pass& pass) const override {
    const at::Tensor hidden = input + attention_(norm_1_(input), pass);
    const at::Tensor out = narrow_(at::gelu(widen_(norm_2_(hidden)), "tanh"));
    return hidden + dropout(out, dropout_, layer_, DropoutSite::kMlpOutput, pass);
  }

 private:
  int layer_;
  double dropout_;
  Norm norm_1_;
  Attention attention_;
  Norm norm_2_;
  Linear widen_;
  Linear narrow_;
};

class Head final : public Layer {
 public:
  Head(const ModelSpec& spec, const ParameterStore& store)
      : norm_(store, "ln_f"), weight_(store.at(spec.tied ? "wte.weight" : "lm_head.weight")) {}

  at::Tensor forward(const at::Tensor& input, const Pass&) const override {
    return at::linear(norm_(input), weight_.use());
  }

 private:
  Norm norm_;
  const Parameter& weight_;
};

}  // namespace

std::unique_ptr<Layer> make_gpt2_layer(const ModelSpec& spec, int layer,
                                       const ParameterStore& store) {
  if (layer == 0) return std::make_unique<Embedding>(spec, store);
  if (layer == spec.head_layer()) return std::make_unique<Head>(spec, store);
  return std::make_unique<Block>(spec, layer, store, cat("h.", layer - 1));
}

}  // namespace chimera
