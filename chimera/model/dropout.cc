#include "chimera/model/dropout.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "chimera/base/check.h"

namespace chimera {
namespace {

// One byte an element, nonzero: kept.
void draw_mask(const RandomStream& stream, std::uint32_t threshold, std::span<std::uint8_t> kept) {
  constexpr std::size_t kWords = std::tuple_size_v<PhiloxBlock>;
  std::size_t i = 0;
  for (; i + kWords <= kept.size(); i += kWords) {
    const PhiloxBlock words = stream.block(i / kWords);
    for (std::size_t j = 0; j < kWords; ++j) kept[i + j] = words[j] >= threshold;
  }
  if (i == kept.size()) return;
  const PhiloxBlock words = stream.block(i / kWords);
  for (std::size_t j = 0; i + j < kept.size(); ++j) kept[i + j] = words[j] >= threshold;
}

}  // namespace

at::Tensor dropout(const at::Tensor& input, double probability, int layer, DropoutSite site,
                   const Pass& pass) {
  if (!pass.training || probability == 0 || input.numel() == 0) return input;
  CHECK(std::ssize(pass.samples) == input.size(0));
  const auto threshold =
      static_cast<std::uint32_t>(std::min(std::floor(probability * 0x1.0p32), 0x1.0p32 - 1));
  const at::Tensor mask = at::empty(input.sizes(), at::kByte);
  const std::size_t per_sample = static_cast<std::size_t>(input.numel()) / pass.samples.size();
  const std::span<std::uint8_t> bytes(mask.data_ptr<std::uint8_t>(),
                                      static_cast<std::size_t>(input.numel()));
  for (std::size_t i = 0; i < pass.samples.size(); ++i) {
    draw_mask(dropout_stream(pass.seed, pass.step, layer, site, pass.samples[i]), threshold,
              bytes.subspan(i * per_sample, per_sample));
  }
  return input * mask.to(input.device()).to(input.scalar_type()).mul_(1 / (1 - probability));
}

}  // namespace chimera
