// The parameters of one worker, by global name. Stages of the worker that use the same parameter
// (both ends of a tied model, or two replicas of one stage) hold one tensor.
//
// Parameters used by the same set of stages lie in one Flat: a dense tensor of values and one of
// gradients, of which the parameters are views. The runtime sums flat gradients over replicas, the
// optimizer steps over flats. Parameters begin at multiples of 64 bytes; the gaps stay zero.
//
// With bf16 the values and gradients are fp32, so that small updates and sums of micro-batches are
// not rounded away; layers compute with a bf16 copy, made once a step and not once a micro-batch.
//
// Versions. Where a step comes while micro-batches are under way (PipeDream), the newest values are
// stashed first: they stay as they are, with whatever graphs use them, and the step changes a copy,
// which is the newest from then on. An older one takes its place for a forward that must read it.
//
// Initial values depend on the seed and the parameter's identity alone: not on splits or workers.
// Used by the worker's thread alone. Outlives the stages built on it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <list>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "chimera/shape/parameters.h"

namespace chimera {

struct Flat {
  std::vector<int> stages;  // that use it, ascending
  at::Tensor values;        // the newest; one dimension, as long as gradients
  at::Tensor gradients;
  int steps = 0;  // done: the number of the newest version
};

struct Parameter {
  ParameterSpec spec;
  at::Tensor value;     // a leaf; a view of its flat's values
  at::Tensor gradient;  // value's grad; a view of its flat's gradients
  at::Tensor compute;   // the value in the type of the computation; the value itself unless bf16

  // What a layer computes with: gradients of it arrive in `gradient`.
  [[nodiscard]] at::Tensor use() const;
};

class ParameterStore {
 public:
  ParameterStore(std::uint64_t seed, DType compute_dtype, at::Device device = at::kCPU);
  ParameterStore(const ParameterStore&) = delete;
  ParameterStore& operator=(const ParameterStore&) = delete;

  // Makes those that are not there yet, with initial values and zero gradients.
  void create(std::span<const ParameterSpec> specs);

  [[nodiscard]] const Parameter& at(const std::string& name) const;
  [[nodiscard]] const std::map<std::string, Parameter>& parameters() const { return parameters_; }
  // In order of creation.
  [[nodiscard]] const std::list<Flat>& flats() const { return flats_; }

  // Of all stages, or of what `stage` alone uses.
  void zero_gradients();
  void zero_gradients(int stage);

  // To be called after values were written (by an optimizer, or from a file), before their next
  // use.
  void values_changed();

  // Of a stage that shares no parameter with others. Ages as in Action::age: 0 is the newest.
  void stash(int stage);
  void free(int stage, int age);
  // Puts an older version where the newest is; the same call again puts it back.
  void exchange(int stage, int age);
  // The newest version was stepped; the copy for the computation follows.
  void stepped(int stage);

  [[nodiscard]] DType compute_dtype() const { return compute_dtype_; }
  [[nodiscard]] at::Device device() const { return device_; }

 private:
  // The parameters of a flat as one version has them.
  struct Version {
    at::Tensor values;
    std::vector<at::Tensor> leaves, copies;  // Parameter::value and compute, in order
  };
  // What a flat has beside its newest values.
  struct History {
    Flat* flat;
    std::vector<Parameter*> parameters;
    std::vector<std::int64_t> begins;  // in the flat
    std::map<int, Version> versions;   // by number; empty until the first stash
  };

  void create_flat(const std::vector<int>& stages, const std::vector<ParameterSpec>& specs);
  [[nodiscard]] History& history(int stage);
  [[nodiscard]] Version make_version(const History& history, const at::Tensor& values) const;

  std::uint64_t seed_;
  DType compute_dtype_;
  at::Device device_;
  std::list<Flat> flats_;
  std::map<std::string, Parameter> parameters_;
  std::list<History> histories_;  // of each flat
};

}  // namespace chimera
