// A tiny GPT-2, data for it, a run of Chimera on it, and the oracle: the same training on one
// device as a plain loop over the whole mini-batch, with PyTorch's own loss, clipping and AdamW.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "chimera/data/dataset.h"
#include "chimera/job/config.h"
#include "chimera/model/safetensors.h"
#include "chimera/transport/transport.h"

namespace chimera::tiny {

// How long a sample is.
using Lengths = std::function<int(std::int64_t sample)>;

// Random tokens below a vocabulary, by sample number.
class TinyDataset final : public Dataset {
 public:
  TinyDataset(std::int64_t vocabulary, int sequence)
      : TinyDataset(vocabulary, [sequence](std::int64_t) { return sequence; }) {}
  TinyDataset(std::int64_t vocabulary, Lengths lengths)
      : vocabulary_(vocabulary), lengths_(std::move(lengths)) {}

  [[nodiscard]] std::int64_t vocabulary() const override { return vocabulary_; }
  [[nodiscard]] std::int64_t tokens(std::int64_t first, int count) const override;
  [[nodiscard]] TokenBatch read(std::int64_t first, int count) const override;

 private:
  std::int64_t vocabulary_;
  Lengths lengths_;
};

struct Result {
  std::vector<double> losses, norms;  // of each step
  NamedTensors weights;               // after the last
};

// fp64, 8 blocks, hidden 16, sequence 8, vocabulary 101, clipping on, 10 steps.
[[nodiscard]] Config tiny_config();

// On tiny data, all of model.sequence, or of the lengths given.
[[nodiscard]] Result run_chimera(const Config& config, const Lengths& lengths = {});
// One rank's part of such a run, on a transport of its own; the result is rank 0's.
[[nodiscard]] Result run_rank(const Config& config, Transport& transport,
                              const Lengths& lengths = {});
[[nodiscard]] Result run_one_device(const Config& config, const Lengths& lengths = {});

// One device that computes the gradient of step t not with the newest weights x(t) but, for the
// parameters of each stage, with x(max(0, t - delay[stage])), and then updates x(t) with it.
[[nodiscard]] Result run_delayed(const Config& config, const std::vector<int>& split,
                                 const std::vector<int>& delay);

// Measured peaks in bytes, by rank, after the first step.
[[nodiscard]] std::vector<double> measure_peaks(const Config& config);

// make_plan refuses the configuration, and says this among other things.
void expect_refused(const Config& config, const std::string& says);

// Losses, norms and weights agree within 1e-10, of each tensor's largest value or of 1e-3 where
// that is less (key biases have no gradient: what is there is noise).
void expect_equal(const Result& result, const Result& oracle, const std::string& what);

// The same, bit for bit.
void expect_same_bits(const Result& a, const Result& b, const std::string& what);

}  // namespace chimera::tiny
