#include "chimera/simulate/costs.h"

namespace chimera {

Costs Costs::uniform(int stages, double forward_s, double backward_s) {
  Costs costs;
  costs.forward_s.assign(static_cast<std::size_t>(stages), forward_s);
  costs.backward_s.assign(static_cast<std::size_t>(stages), backward_s);
  return costs;
}

double Costs::input_part(std::size_t stage) const {
  return backward_input_s.empty() ? backward_s[stage] / 2 : backward_input_s[stage];
}

double Costs::compute(const Action& action) const {
  const auto stage = static_cast<std::size_t>(action.stage);
  switch (action.op) {
    case Op::kForward:
      return action.span * forward_s[stage];
    case Op::kRecompute:
      return action.span * (recompute_s.empty() ? forward_s : recompute_s)[stage];
    case Op::kBackward:
      return action.span * backward_s[stage];
    case Op::kBackwardInput:
      return action.span * input_part(stage);
    case Op::kBackwardWeight:
      return action.span * (backward_s[stage] - input_part(stage));
    default:
      return 0;
  }
}

double Costs::message_bytes(const Action& send) const {
  if (boundary_bytes.empty()) return 0;
  const int boundary = send.op == Op::kSendActivation ? send.stage : send.stage - 1;
  return boundary_bytes[static_cast<std::size_t>(boundary)];
}

const Link& Costs::link_of(const ChannelEnds& ends) const {
  const auto own = links.find(ends);
  return own == links.end() ? link : own->second;
}

double Costs::reduce(int stage) const {
  return reduce_s.empty() ? 0 : reduce_s[static_cast<std::size_t>(stage)];
}

double Costs::step(int stage, std::span<const int> held) const {
  double seconds = step_s;
  if (stage_step_s.empty()) return seconds;
  if (stage != kAllStages) return seconds + stage_step_s[static_cast<std::size_t>(stage)];
  for (const int each : held) seconds += stage_step_s[static_cast<std::size_t>(each)];
  return seconds;
}

}  // namespace chimera
