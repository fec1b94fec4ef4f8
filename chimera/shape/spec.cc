#include "chimera/shape/spec.h"

#include <array>
#include <string_view>

#include "chimera/base/error.h"
#include "chimera/base/text.h"

namespace chimera {
namespace {

constexpr std::array<std::string_view, 1> kKinds = {"gpt2"};
constexpr int kMostLayers = 10000;

void require_positive(std::string_view name, int value) {
  if (value >= 1) return;
  throw Error(ErrorCode::kUsage, cat("model.", name, " is ", value,
                                     ", expected a whole number of at least 1; set model.", name));
}

void validate_kind(const std::string& kind) {
  for (const std::string_view known : kKinds) {
    if (kind == known) return;
  }
  throw Error(ErrorCode::kUsage, unknown_word("model kind", kind, kKinds));
}

void validate_heads(const ModelSpec& spec) {
  if (spec.hidden % spec.heads == 0) return;
  const int below = spec.hidden - spec.hidden % spec.heads;
  throw Error(ErrorCode::kUsage,
              cat("model.hidden is ", spec.hidden, " with model.heads ", spec.heads,
                  ", expected a hidden size that the heads divide; try hidden ",
                  below > 0 ? cat(below, " or ") : "", below + spec.heads));
}

// Counts of parameters and operations are kept in 64 bits.
void validate_size(const ModelSpec& spec) {
  constexpr double kMost = 4e18;
  const double h = spec.hidden, t = spec.sequence, v = spec.vocabulary;
  const double operations = spec.layers * (24 * h * h * t + 4 * h * t * t) + 2 * v * h * t;
  if (operations <= kMost) return;
  throw Error(ErrorCode::kUsage,
              cat("model of ", spec.layers, " layers, hidden ", spec.hidden, ", sequence ",
                  spec.sequence, ", vocabulary ", spec.vocabulary, " takes ", operations,
                  " operations for one sequence, expected at most ", kMost, "; try smaller sizes"));
}

}  // namespace

void validate(const ModelSpec& spec) {
  validate_kind(spec.kind);
  require_positive("layers", spec.layers);
  if (spec.layers > kMostLayers) {
    throw Error(ErrorCode::kUsage,
                cat("model.layers is ", spec.layers, ", expected at most ", kMostLayers));
  }
  require_positive("hidden", spec.hidden);
  require_positive("heads", spec.heads);
  require_positive("sequence", spec.sequence);
  require_positive("vocabulary", spec.vocabulary);
  validate_heads(spec);
  validate_size(spec);
  if (spec.positions != 0 && spec.positions < spec.sequence) {
    throw Error(ErrorCode::kUsage, cat("model.positions is ", spec.positions,
                                       ", expected at least model.sequence, which is ",
                                       spec.sequence, "; leave it out to have just as many"));
  }
  if (!(spec.dropout >= 0 && spec.dropout < 1)) {
    throw Error(ErrorCode::kUsage, cat("model.dropout is ", spec.dropout,
                                       ", expected a probability from 0 up to, not including, 1; "
                                       "try 0.1, or 0 for none"));
  }
  if (spec.dtype != DType::kFloat64 && spec.dtype != DType::kFloat32 &&
      spec.dtype != DType::kBFloat16) {
    throw Error(ErrorCode::kUsage,
                cat("model.dtype is ", info(spec.dtype).name,
                    ", expected a floating type to compute in; try fp32, fp64 or bf16"));
  }
}

}  // namespace chimera
