#include "chimera/generate/generate.h"

#include <algorithm>
#include <array>
#include <vector>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/generate/generators.h"

namespace chimera {
namespace {

constexpr std::array<Generator, 3> kGenerators = {{
    {.name = "gpipe",
     .summary = "all forwards, then all backwards (Huang et al., 2019)",
     .make = make_gpipe},
    {.name = "1f1b",
     .summary = "one forward, one backward in turn, then a flush (DAPPLE, Fan et al., 2021)",
     .make = make_one_f_one_b},
    {.name = "chimera",
     .summary = "pipes in both directions over the same workers (Li and Hoefler, 2021)",
     .paired = true,
     .even_stages = true,
     .make = make_chimera},
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
  std::vector<int> legal;
  for (int f = 1; f <= half; ++f) {
    if (half % f == 0) legal.push_back(f);
  }
  refuse(generator.name, cat("pairs is ", pairs, "; with ", spec.stages, " stages it must divide ",
                             half, ": ", join(legal)));
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
}

}  // namespace

std::span<const Generator> generators() { return kGenerators; }

Schedule generate(std::string_view name, const Spec& spec) {
  const auto found = std::find_if(kGenerators.begin(), kGenerators.end(),
                                  [&](const Generator& g) { return g.name == name; });
  if (found == kGenerators.end()) {
    std::vector<std::string_view> names;
    for (const Generator& generator : kGenerators) names.push_back(generator.name);
    throw Error(ErrorCode::kUsage, unknown_word("schedule", name, names));
  }
  check(*found, spec);
  return found->make(spec);
}

}  // namespace chimera
