#include "chimera/generate/generate.h"

#include <algorithm>
#include <array>
#include <vector>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/generate/generators.h"

namespace chimera {
namespace {

constexpr std::array<Generator, 6> kGenerators = {{
    {.name = "gpipe",
     .summary = "all forwards, then all backwards (Huang et al., 2019)",
     .make = make_gpipe},
    {.name = "1f1b",
     .summary = "one forward, one backward in turn, then a flush (DAPPLE, Fan et al., 2021)",
     .make = make_one_f_one_b},
    {.name = "gems",
     .summary = "two pipes, one micro-batch at a time in each worker's memory (Jain et al., 2020)",
     .make = make_gems},
    {.name = "chimera",
     .summary = "pipes in both directions over the same workers (Li and Hoefler, 2021)",
     .paired = true,
     .even_stages = true,
     .methods = true,
     .make = make_chimera},
    {.name = "pipedream",
     .summary = "asynchronous: a step after every micro-batch (Narayanan et al., 2019)",
     .asynchronous = true,
     .make = make_pipedream},
    {.name = "pipedream-2bw",
     .summary = "asynchronous: two versions of the weights (Narayanan et al., 2021)",
     .asynchronous = true,
     .make = make_pipedream_2bw},
}};

[[noreturn]] void refuse(std::string_view name, const std::string& why) {
  throw Error(ErrorCode::kUsage, cat("schedule ", name, ": ", why));
}

void check_pairs(const Generator& generator, const Spec& spec) {
  const int pairs = spec.pairs.value_or(1);
  if (!generator.paired) {
    if (pairs != 1) {
      refuse(generator.name,
             cat("pairs is ", pairs, ", but its pipes are not paired; leave pairs out"));
    }
    return;
  }
  const int half = spec.stages / 2;
  if (pairs >= 1 && half % pairs == 0) return;
  refuse(generator.name, cat("pairs is ", pairs, "; with ", spec.stages, " stages it must divide ",
                             half, ": ", join(legal_pairs(spec.stages))));
}

void check_method(const Generator& generator, const Spec& spec) {
  if (spec.fused && spec.method != Method::kDoubling) {
    refuse(generator.name, "fused forwards belong to the method doubling; leave fused out");
  }
  if (generator.methods || !spec.method) return;
  refuse(generator.name, cat("it has no methods; leave out the method ",
                             kMethods[static_cast<std::size_t>(*spec.method)]));
}

void check_steps(const Generator& generator, const Spec& spec, std::int64_t most) {
  if (!spec.steps) return;
  if (!generator.asynchronous) {
    refuse(generator.name, cat("steps is ", *spec.steps,
                               ", but it ends with a step; leave steps out, all steps are alike"));
  }
  if (*spec.steps >= 1 && *spec.steps <= most / spec.micros) return;
  refuse(generator.name,
         cat("steps is ", *spec.steps, "; expected a number from 1 to ", most / spec.micros,
             " with ", spec.stages, " stages and ", spec.micros, " micro-batches a step"));
}

void check(const Generator& generator, const Spec& spec) {
  if (spec.stages < 1 || spec.stages > kMaxStages) {
    refuse(generator.name,
           cat("stages is ", spec.stages, "; expected a number from 1 to ", kMaxStages));
  }
  const std::int64_t most = kMaxCells / spec.stages;
  if (spec.micros < 1 || spec.micros > most) {
    refuse(generator.name, cat("micro-batches is ", spec.micros, "; expected a number from 1 to ",
                               most, " with ", spec.stages, " stages"));
  }
  if (generator.even_stages && spec.stages % 2 != 0) {
    const int below = spec.stages - 1, above = spec.stages + 1;
    const std::string nearest = below < 2 ? cat(above) : cat(below, " or ", above);
    refuse(generator.name,
           cat("stages is ", spec.stages,
               "; two opposite pipes need an even number, the nearest is ", nearest));
  }
  check_pairs(generator, spec);
  check_method(generator, spec);
  check_steps(generator, spec, most);
}

}  // namespace

std::span<const Generator> generators() { return kGenerators; }

std::string name_with_method(const Generator& generator, const Spec& spec) {
  std::string name(generator.name);
  if (spec.method) name += cat(" ", kMethods[static_cast<std::size_t>(*spec.method)]);
  return spec.fused ? name + " fused" : name;
}

std::vector<int> legal_pairs(int stages) {
  std::vector<int> legal;
  for (int f = 1; f <= stages / 2; ++f) {
    if (stages / 2 % f == 0) legal.push_back(f);
  }
  return legal;
}

Method method(std::string_view name) {
  const auto found = std::find(kMethods.begin(), kMethods.end(), name);
  if (found == kMethods.end()) {
    throw Error(ErrorCode::kUsage, unknown_word("method", name, kMethods));
  }
  return static_cast<Method>(found - kMethods.begin());
}

const Generator& generator(std::string_view name) {
  const auto found = std::find_if(kGenerators.begin(), kGenerators.end(),
                                  [&](const Generator& g) { return g.name == name; });
  if (found != kGenerators.end()) return *found;
  std::vector<std::string_view> names;
  for (const Generator& generator : kGenerators) names.push_back(generator.name);
  throw Error(ErrorCode::kUsage, unknown_word("schedule", name, names));
}

Schedule generate(std::string_view name, const Spec& spec) {
  const Generator& found = generator(name);
  check(found, spec);
  return found.make(spec);
}

}  // namespace chimera
