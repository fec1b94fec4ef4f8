// PipeDream (Narayanan et al., SOSP 2019) and PipeDream-2BW (Narayanan et al., ICML 2021): 1F1B
// that never drains, because weights change while micro-batches are under way.
//
//   P0  F0 F1 F2 F3 .  .  .  B0 F4 B1 F5 B2 ...      D = 4, equal slots; PipeDream steps after each
//   P1  .  F0 F1 F2 .  .  B0 F3 B1 F4 B2 F5 ...      backward
//   P2  .  .  F0 F1 .  B0 F2 B1 F3 B2 F4 B3 ...
//   P3  .  .  .  F0 B0 F1 B1 F2 B2 F3 B3 F4 ...
//
// Row of stage s: w forwards of warm-up, then forward m + w and backward m in turn. With w = D-1-s
// the pipeline stays full, whatever the number of steps: the bubble is the warm-up and the drain of
// the whole run.
//
// PipeDream steps after every micro-batch. Forward m of stage s comes after m - w steps of the
// stage and reads that version, the newest; its backward comes w steps later and must read the same
// one. So a stage holds up to w + 1 = D - s versions. The rule that this trains by:
//
//   x_s(m+1) = x_s(m) - lr g_s(x_0(m-D+1), x_1(m-D+2), ..., x_(D-1)(m))      (index below 0: 0)
//
// PipeDream-2BW steps once every N micro-batches, and all micro-batches of step t read version t-1
// on all stages. Version t would come too late: the first forwards of step t start before the last
// backwards of step t-1 are done. So a stage holds two versions.
//
//   x(t+1) = x(t) - lr g(x(t-1))
//
// A forward of step t+2 needs version t+1, and so all of step t done; it comes w micro-batches
// before the backward beside it, hence w is at most N.
// Tests: generate_test.cc and paper_formulas_test.cc (length, stash, versions),
// tests/equivalence/asynchronous_test.cc (the rules), golden/.
#include <algorithm>

#include "chimera/generate/generators.h"

namespace chimera {
namespace {

// When a schedule steps, and which version of the weights a micro-batch reads.
struct UpdateRule {
  std::string_view name;
  int micros_per_step;
  // Of a stage with `warm_up` micro-batches ahead; below 0 stands for 0.
  int (*version)(int micro, int micros_per_step, int warm_up);
};

Row make_row(const UpdateRule& rule, int stage, int micros, int warm_up) {
  Row row;
  int steps = 0;
  const auto add = [&](Op op, int micro) {
    Action action = compute_action(op, stage, micro);
    const int version = std::max(0, rule.version(micro, rule.micros_per_step, warm_up));
    action.age = static_cast<std::int16_t>(steps - version);
    row.push_back(action);
  };
  for (int micro = 0; micro < warm_up; ++micro) add(Op::kForward, micro);
  for (int micro = 0; micro < micros; ++micro) {
    if (micro + warm_up < micros) add(Op::kForward, micro + warm_up);
    add(Op::kBackward, micro);
    if ((micro + 1) % rule.micros_per_step != 0) continue;
    row.push_back(compute_action(Op::kStep, stage, micro));
    ++steps;
  }
  return row;
}

Schedule make_asynchronous(const Spec& spec, const UpdateRule& rule, int most_ahead) {
  const int micros = spec.micros * spec.steps.value_or(1);
  Schedule schedule{.name = std::string(rule.name),
                    .micros = micros,
                    .placement = Placement::linear(spec.stages),
                    .rows = {}};
  for (int stage = 0; stage < spec.stages; ++stage) {
    const int warm_up = std::min({spec.stages - 1 - stage, most_ahead, micros});
    schedule.rows.push_back(make_row(rule, stage, micros, warm_up));
  }
  return schedule;
}

}  // namespace

Schedule make_pipedream(const Spec& spec) {
  const UpdateRule rule{"pipedream", 1,
                        [](int micro, int, int warm_up) { return micro - warm_up; }};
  return make_asynchronous(spec, rule, spec.stages);
}

Schedule make_pipedream_2bw(const Spec& spec) {
  const UpdateRule rule{"pipedream-2bw", spec.micros, [](int micro, int micros_per_step, int) {
                          return micro / micros_per_step - 1;
                        }};
  return make_asynchronous(spec, rule, spec.micros);
}

}  // namespace chimera
