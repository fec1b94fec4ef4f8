#include "chimera/model/store.h"

#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "chimera/base/check.h"
#include "chimera/base/random.h"
#include "chimera/model/random_use.h"
#include "chimera/model/tensor.h"

namespace chimera {
namespace {

// The bf16 copy of a value, as if cast from it: the gradient goes to the value. Unlike a cast it
// makes no new tensor, which every micro-batch in flight would keep.
struct UseCopy : torch::autograd::Function<UseCopy> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& value,
                            const at::Tensor& copy) {
    CHECK(value.sizes() == copy.sizes());
    return copy.variable_data();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list& gradients) {
    return {gradients[0].to(at::kFloat), at::Tensor()};
  }
};

void fill_initial(const ParameterSpec& spec, std::uint64_t seed, at::Tensor& values) {
  if (spec.initial != Initial::kNormal) {
    values.fill_(spec.initial == Initial::kOnes ? 1 : 0);
    return;
  }
  // In double whatever the type, so that fp32 begins with the rounded values of fp64.
  const RandomStream stream = initial_values_stream(seed, spec.layer, spec.index);
  at::Tensor drawn = at::empty({spec.elements()}, at::kDouble);
  double* element = drawn.data_ptr<double>();
  for (std::int64_t i = 0; i < spec.elements(); ++i) {
    element[i] = spec.deviation * stream.normal(static_cast<std::uint64_t>(i));
  }
  values.copy_(drawn.view(spec.shape));
}

}  // namespace

at::Tensor Parameter::use() const {
  return compute.is_same(value) ? value : UseCopy::apply(value, compute);
}

ParameterStore::ParameterStore(std::uint64_t seed, DType compute_dtype, at::Device device)
    : seed_(seed), compute_dtype_(compute_dtype), device_(device) {}

void ParameterStore::create(std::span<const ParameterSpec> specs) {
  std::map<std::vector<int>, std::vector<ParameterSpec>> missing;
  for (const ParameterSpec& spec : specs) {
    CHECK(!spec.stages.empty());
    const auto found = parameters_.find(spec.name);
    if (found == parameters_.end()) {
      missing[spec.stages].push_back(spec);
    } else {
      CHECK(found->second.spec.stages == spec.stages && found->second.spec.shape == spec.shape);
    }
  }
  for (const auto& [stages, group] : missing) create_flat(stages, group);
}

void ParameterStore::create_flat(const std::vector<int>& stages,
                                 const std::vector<ParameterSpec>& specs) {
  const at::NoGradGuard no_grad;
  const DType dtype = compute_dtype_ == DType::kBFloat16 ? DType::kFloat32 : compute_dtype_;
  const std::int64_t step = kParameterAlignment / static_cast<std::int64_t>(info(dtype).bytes);
  std::vector<std::int64_t> begins;
  std::int64_t elements = 0;
  for (const ParameterSpec& spec : specs) {
    begins.push_back(elements);
    elements += (spec.elements() + step - 1) / step * step;
  }
  const auto options = at::TensorOptions().dtype(to_torch(dtype)).device(device_);
  Flat& flat = flats_.emplace_back(
      Flat{stages, at::zeros({elements}, options), at::zeros({elements}, options)});
  History& history = histories_.emplace_back(History{&flat, {}, begins, {}});
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const ParameterSpec& spec = specs[i];
    const auto view = [&](const at::Tensor& whole) {
      // variable_data: a leaf of its own, whose writes are not taken for writes to its neighbours.
      return whole.narrow(0, begins[i], spec.elements()).view(spec.shape).variable_data();
    };
    Parameter parameter{spec, view(flat.values), view(flat.gradients), {}};
    fill_initial(spec, seed_, parameter.value);
    parameter.value.set_requires_grad(true);
    // Backward adds in place to a gradient that is there.
    parameter.value.mutable_grad() = parameter.gradient;
    parameter.compute =
        dtype == compute_dtype_ ? parameter.value : parameter.value.detach().to(at::kBFloat16);
    history.parameters.push_back(
        &parameters_.emplace(spec.name, std::move(parameter)).first->second);
  }
}

const Parameter& ParameterStore::at(const std::string& name) const {
  const auto found = parameters_.find(name);
  CHECK(found != parameters_.end());
  return found->second;
}

void ParameterStore::zero_gradients() {
  const at::NoGradGuard no_grad;
  for (Flat& flat : flats_) flat.gradients.zero_();
}

void ParameterStore::zero_gradients(int stage) {
  const at::NoGradGuard no_grad;
  history(stage).flat->gradients.zero_();
}

void ParameterStore::values_changed() {
  const at::NoGradGuard no_grad;
  for (auto& [name, parameter] : parameters_) {
    if (!parameter.compute.is_same(parameter.value)) parameter.compute.copy_(parameter.value);
  }
}

// ---- versions

ParameterStore::History& ParameterStore::history(int stage) {
  const auto found = std::find_if(histories_.begin(), histories_.end(), [&](const History& h) {
    return h.flat->stages == std::vector<int>{stage};
  });
  CHECK(found != histories_.end());
  return *found;
}

ParameterStore::Version ParameterStore::make_version(const History& history,
                                                     const at::Tensor& values) const {
  const at::NoGradGuard no_grad;
  Version version{values, {}, {}};
  for (std::size_t i = 0; i < history.parameters.size(); ++i) {
    const Parameter& parameter = *history.parameters[i];
    at::Tensor leaf = values.narrow(0, history.begins[i], parameter.spec.elements())
                          .view(parameter.spec.shape)
                          .variable_data();
    leaf.set_requires_grad(true);
    leaf.mutable_grad() = parameter.gradient;  // all versions add to the same gradient
    const bool narrow = !parameter.compute.is_same(parameter.value);
    version.copies.push_back(narrow ? leaf.detach().to(at::kBFloat16) : leaf);
    version.leaves.push_back(std::move(leaf));
  }
  return version;
}

void ParameterStore::stash(int stage) {
  const at::NoGradGuard no_grad;
  History& h = history(stage);
  Flat& flat = *h.flat;
  Version& kept = h.versions[flat.steps];
  kept.values = flat.values;
  for (Parameter* parameter : h.parameters) {
    kept.leaves.push_back(parameter->value);
    kept.copies.push_back(parameter->compute);
  }
  flat.values = flat.values.clone();
  const Version newest = make_version(h, flat.values);
  for (std::size_t i = 0; i < h.parameters.size(); ++i) {
    h.parameters[i]->value = newest.leaves[i];
    h.parameters[i]->compute = newest.copies[i];
  }
}

void ParameterStore::free(int stage, int age) {
  History& h = history(stage);
  CHECK(h.versions.erase(h.flat->steps - age) == 1);
}

void ParameterStore::exchange(int stage, int age) {
  History& h = history(stage);
  const auto wanted = h.versions.find(h.flat->steps - age);
  CHECK(wanted != h.versions.end());
  for (std::size_t i = 0; i < h.parameters.size(); ++i) {
    std::swap(h.parameters[i]->value, wanted->second.leaves[i]);
    std::swap(h.parameters[i]->compute, wanted->second.copies[i]);
  }
}

void ParameterStore::stepped(int stage) {
  const at::NoGradGuard no_grad;
  History& h = history(stage);
  ++h.flat->steps;
  for (Parameter* parameter : h.parameters) {
    if (!parameter->compute.is_same(parameter->value)) parameter->compute.copy_(parameter->value);
  }
}

}  // namespace chimera
