// Steady state. A forward on worker 0 waits for nothing that comes later, so the times t(m) at
// which the forwards of micro-batches begin there are those of an endless run, however many steps
// are simulated. From some m on they repeat: t(m) = t(m - q) + T. The period q is more than one
// where the slowest loop through the workers takes several micro-batches around, or where steps
// take time. It is looked for in the second half of a run, and the runs double until two agree, for
// a run may be too short to show what slows it. A step of N micro-batches takes N T / q.
#include "chimera/simulate/steady.h"

#include <algorithm>
#include <cmath>

#include "chimera/base/check.h"
#include "chimera/simulate/simulate.h"

namespace chimera {
namespace {

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

}  // namespace

double overlapped_step_s(const Program& program, const Costs& costs, int steps) {
  CHECK(steps >= 2);
  const Timeline timeline = simulate(repeated(program, steps), costs);
  double before = 0;
  for (const auto& row : timeline.rows) {
    const std::size_t others = row.size() - row.size() / static_cast<std::size_t>(steps);
    if (others > 0) before = std::max(before, row[others - 1].end_s);
  }
  return makespan(timeline) - before;
}

double steady_step_s(const Timeline& timeline, int micros_per_step) {
  const std::vector<double> times = begins(timeline);
  const auto micros = static_cast<std::size_t>(micros_per_step);
  const std::size_t steps = times.size() / micros;
  CHECK(steps >= 2);
  const std::size_t from = std::min(steps / 2, steps - 2), to = steps - 1;
  return (times[to * micros] - times[from * micros]) / static_cast<double>(to - from);
}

double idle_ratio(const Timeline& timeline, int steps, double step_s) {
  if (step_s <= 0) return 0;
  double working = 0;
  const int workers = static_cast<int>(timeline.rows.size());
  for (int worker = 0; worker < workers; ++worker) working += busy(timeline, worker);
  return std::max(0.0, 1 - working / steps / (workers * step_s));
}

std::optional<SteadyState> steady_state(const std::function<Program(int steps)>& make,
                                        const Costs& costs, std::int64_t steps,
                                        std::int64_t most_steps) {
  std::optional<double> before;
  for (; steps <= most_steps; steps *= 2) {
    SteadyState state{.steps = static_cast<int>(steps), .program = make(static_cast<int>(steps))};
    state.timeline = simulate(state.program, costs);
    const auto interval = steady_interval(begins(state.timeline));
    if (interval && before && agree(*interval, *before)) {
      state.micro_s = *interval;
      return state;
    }
    before = interval;
  }
  return {};
}

}  // namespace chimera
