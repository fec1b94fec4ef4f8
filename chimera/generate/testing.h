// What the tests of generators share. For tests only.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "chimera/base/text.h"
#include "chimera/generate/generate.h"
#include "chimera/schedule/lower.h"
#include "chimera/schedule/verify.h"
#include "chimera/simulate/simulate.h"

namespace chimera {

// The numbers of pairs that a schedule of this many stages may have.
inline std::vector<int> pair_counts(int stages) {
  std::vector<int> pairs;
  for (int f = 1; f <= stages / 2; ++f) {
    if (stages / 2 % f == 0) pairs.push_back(f);
  }
  return pairs;
}

// Every way that the generator has to make the schedule of that size: pairs and methods.
inline std::vector<Spec> ways_of(const Generator& generator, int stages, int micros) {
  if (generator.even_stages && stages % 2 != 0) return {};
  std::vector<Spec> ways;
  for (const int f : generator.paired ? pair_counts(stages) : std::vector<int>{1}) {
    Spec& spec = ways.emplace_back(Spec{.stages = stages, .micros = micros});
    if (generator.paired) spec.pairs = f;
    if (!generator.methods) continue;
    spec.method = Method::kDirect;
    Spec other = spec;
    other.method = Method::kHalving;
    ways.push_back(other);
    other.method = Method::kDoubling;
    ways.push_back(other);
    other.fused = true;
    ways.push_back(other);
  }
  return ways;
}

inline std::string describe(std::string_view name, const Spec& spec) {
  return cat(name, " D=", spec.stages, " N=", spec.micros, " f=", spec.pairs.value_or(1), " ",
             spec.method ? kMethods[static_cast<std::size_t>(*spec.method)] : "",
             spec.fused ? " fused" : "", " steps=", spec.steps.value_or(1));
}

// The most messages that one of the channels must hold.
inline int largest_capacity(const Verdict& verdict) {
  int most = 0;
  for (const Channel& channel : verdict.channels) most = std::max(most, channel.capacity);
  return most;
}

// No violation, and no channel must hold more messages than `capacity` (0: paired sends and
// receives are enough).
inline Verdict expect_proved(const Program& program, const std::string& what, int capacity = 0) {
  Verdict verdict = verify(program);
  EXPECT_TRUE(verdict.ok()) << what << ": " << (verdict.ok() ? "" : verdict.violations[0].what);
  EXPECT_LE(largest_capacity(verdict), capacity) << what;
  return verdict;
}

inline Verdict expect_proved(std::string_view name, const Spec& spec, int capacity = 0) {
  return expect_proved(lower(generate(name, spec)), describe(name, spec), capacity);
}

// How long the schedule takes when nothing but forwards and backwards costs anything.
inline double length(const Schedule& schedule, double forward, double backward) {
  return makespan(simulate(lower(schedule), Costs::uniform(schedule.stages(), forward, backward)));
}

inline double length(std::string_view name, const Spec& spec, double forward, double backward) {
  return length(generate(name, spec), forward, backward);
}

}  // namespace chimera
