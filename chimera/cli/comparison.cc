// Steady state. A forward on worker 0 waits for nothing that comes later, so the times t(m) at
// which the forwards of micro-batches begin there are those of an endless run, however many steps
// are simulated. From some m on they repeat: t(m) = t(m - q) + T. The period q is more than one
// where the slowest loop through the workers takes several micro-batches around, or where steps
// take time. It is looked for in the second half of a run, and the runs double until two agree, for
// a run may be too short to show what slows it. A step of N micro-batches takes N T / q.
#include "chimera/cli/comparison.h"

#include <algorithm>
#include <cmath>

#include "chimera/base/check.h"
#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/cli/schedule_options.h"
#include "chimera/schedule/verify.h"
#include "chimera/simulate/simulate.h"

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

struct Timed {
  Verdict verdict;
  Timeline timeline;
};

Timed time_program(Schedule schedule, const Work& work, const Costs& costs) {
  const Program program = lower(with_recompute(std::move(schedule), work.recompute), work.reduce);
  Timed timed{verify(program), {}};
  CHECK(timed.verdict.ok());
  timed.timeline = simulate(program, costs);
  return timed;
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
  const Timed timed =
      time_program(std::move(schedule), work, halves ? halved(work.costs) : work.costs);
  Figures figures = figures_of(timed.verdict, 1, halves ? 0.5 : 1);
  figures.makespan = makespan(timed.timeline);
  figures.bubble_ratio = bubble_ratio(timed.timeline);
  return figures;
}

// When the forward of each micro-batch begins on worker 0.
std::vector<double> begins(const Timeline& timeline) {
  std::vector<double> times;
  for (const Interval& interval : timeline.rows.front()) {
    if (interval.action.op == Op::kForward) times.push_back(interval.start_s);
  }
  return times;
}

bool agree(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(a, b); }

// Whether the second half of the times repeats with this period.
bool repeats(const std::vector<double>& times, std::size_t period) {
  const double whole = times.back() - times[times.size() - 1 - period];
  for (std::size_t i = times.size() - 1; i >= times.size() / 2 + period; --i) {
    if (!agree(times[i] - times[i - period], whole)) return false;
  }
  return true;
}

// The time from one micro-batch to the next, on average over the shortest period.
std::optional<double> steady_interval(const std::vector<double>& times) {
  for (std::size_t period = 1; period <= times.size() / 4; ++period) {
    if (!repeats(times, period)) continue;
    return (times.back() - times[times.size() - 1 - period]) / static_cast<double>(period);
  }
  return {};
}

Figures steady_figures(const Timed& timed, const Work& work, int steps, double step_s) {
  Figures figures = figures_of(timed.verdict, steps, 1);
  double working = 0;
  for (int worker = 0; worker < work.stages; ++worker) working += busy(timed.timeline, worker);
  figures.makespan = step_s;
  figures.bubble_ratio = std::max(0.0, 1 - working / steps / (work.stages * step_s));
  return figures;
}

// None where the longest schedule that can be generated is too short.
std::optional<Figures> steady(const Contender& contender, const Work& work) {
  Spec spec = contender.spec;
  std::optional<double> before;
  const std::int64_t most = kMaxCells / work.stages / work.micros;
  for (std::int64_t steps = 4 + 8 * work.stages / work.micros; steps <= most; steps *= 2) {
    spec.steps = static_cast<int>(steps);
    const Timed timed = time_program(generate(contender.generator->name, spec), work, work.costs);
    const auto interval = steady_interval(begins(timed.timeline));
    if (interval && before && agree(*interval, *before)) {
      return steady_figures(timed, work, *spec.steps, *interval * work.micros);
    }
    before = interval;
  }
  return {};
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
