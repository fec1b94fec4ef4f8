#include "chimera/cli/comparison.h"

#include <algorithm>

#include "chimera/base/check.h"
#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/cli/schedule_options.h"
#include "chimera/schedule/verify.h"
#include "chimera/simulate/simulate.h"
#include "chimera/simulate/steady.h"

namespace chimera {
namespace {

// ---- who takes part ----------------------------------------------------------------------------

struct Variant {
  std::optional<Method> method;
  bool fused;
};

std::vector<Variant> variants_of(const Generator& generator) {
  if (!generator.methods) return {{{}, false}};
  return {{Method::kDirect, false},
          {Method::kDoubling, false},
          {Method::kDoubling, true},
          {Method::kHalving, false}};
}

bool contains(const std::vector<int>& values, int value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// Once where it cannot be; else in all its variants.
void add_contenders(const Generator& generator, const Work& work, const std::vector<int>& pairs,
                    std::vector<Contender>& contenders) {
  Spec spec{.stages = work.stages, .micros = work.micros};
  const auto add = [&] { contenders.push_back({&generator, spec, {}, ""}); };
  if (!generator.paired) return add();
  if (generator.even_stages && work.stages % 2 != 0) return add();
  const std::vector<int> legal = legal_pairs(work.stages);
  for (const int f : pairs) {
    spec.pairs = f;
    if (!contains(legal, f)) add();
  }
  for (const Variant& variant : variants_of(generator)) {
    spec.method = variant.method;
    spec.fused = variant.fused;
    spec.micros = variant.method == Method::kHalving ? 2 * work.micros : work.micros;
    for (const int f : legal) {
      spec.pairs = f;
      if (pairs.empty() || contains(pairs, f)) add();
    }
  }
}

// ---- what it costs -----------------------------------------------------------------------------

Program program_of(Schedule schedule, const Work& work) {
  return lower(with_recompute(std::move(schedule), work.recompute), work.reduce);
}

Verdict proved(const Program& program) {
  Verdict verdict = verify(program);
  CHECK(verdict.ok());
  return verdict;
}

Range range_of(const std::vector<int>& values, double unit) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {*low * unit, *high * unit};
}

// All but the times.
Figures figures_of(const Verdict& verdict, int steps, double unit) {
  Figures figures;
  figures.weights = range_of(verdict.peak_versions, 1);
  figures.stash = range_of(verdict.peak_stash, unit);
  for (const Channel& channel : verdict.channels) {
    figures.messages += channel.messages;
    figures.capacity = std::max(figures.capacity, channel.capacity);
  }
  figures.messages /= steps;
  return figures;
}

// What backwards of half a micro-batch cost.
Costs halved(Costs costs) {
  for (auto* values :
       {&costs.forward_s, &costs.backward_s, &costs.recompute_s, &costs.boundary_bytes}) {
    for (double& value : *values) value /= 2;
  }
  return costs;
}

Figures one_step(const Contender& contender, const Work& work, Schedule schedule) {
  const bool halves = contender.spec.method == Method::kHalving;
  const Program program = program_of(std::move(schedule), work);
  const Timeline timeline = simulate(program, halves ? halved(work.costs) : work.costs);
  Figures figures = figures_of(proved(program), 1, halves ? 0.5 : 1);
  figures.makespan = makespan(timeline);
  figures.bubble_ratio = bubble_ratio(timeline);
  return figures;
}

// None where the longest schedule that can be generated is too short.
std::optional<Figures> steady(const Contender& contender, const Work& work) {
  const auto make = [&](int steps) {
    Spec spec = contender.spec;
    spec.steps = steps;
    return program_of(generate(contender.generator->name, spec), work);
  };
  const auto state = steady_state(make, work.costs, 4 + 8 * work.stages / work.micros,
                                  kMaxCells / work.stages / work.micros);
  if (!state) return {};
  Figures figures = figures_of(proved(state->program), state->steps, 1);
  figures.makespan = state->micro_s * work.micros;
  figures.bubble_ratio = idle_ratio(state->timeline, state->steps, figures.makespan);
  return figures;
}

// A generator says "schedule NAME: why"; the table has the name already.
std::string reason_of(const Error& error, const Generator& generator) {
  const std::string what = error.what();
  const std::string prefix = cat("schedule ", generator.name, ": ");
  return what.rfind(prefix, 0) == 0 ? what.substr(prefix.size()) : what;
}

void fill(Contender& contender, const Work& work) {
  Schedule schedule;
  try {
    schedule = generate(contender.generator->name, contender.spec);
  } catch (const Error& error) {
    contender.reason = reason_of(error, *contender.generator);
    return;
  }
  if (!contender.generator->asynchronous) {
    contender.figures = one_step(contender, work, std::move(schedule));
    return;
  }
  contender.figures = steady(contender, work);
  if (!contender.figures) {
    contender.reason = "steps take no steady time within the longest run that can be simulated";
  }
}

}  // namespace

std::vector<Contender> compare(const Work& work, const std::vector<int>& pairs) {
  std::vector<Contender> contenders;
  for (const Generator& generator : generators()) {
    add_contenders(generator, work, pairs, contenders);
  }
  for (Contender& contender : contenders) fill(contender, work);
  return contenders;
}

}  // namespace chimera
