#include "chimera/schedule/progress.h"

#include <map>
#include <string>

#include "chimera/schedule/rounds.h"
#include "chimera/schedule/transfers.h"
#include "chimera/schedule/walk.h"

namespace chimera {

void check_progress(const Program& program, Findings& findings) {
  const Placement& placement = program.source.placement;
  const auto channel = [&](std::size_t worker, const Action& action) {
    return channel_of(placement, static_cast<int>(worker), action);
  };
  std::map<ChannelEnds, int> held;  // messages in each channel
  Rounds<int> rounds(program);      // begins
  const auto stops = walk(program.rows, [&](std::size_t worker, std::size_t position) {
    const Action& action = program.rows[worker][position];
    if (action.op == Op::kReduceBegin) ++rounds.begin(worker, action.stage);
    if (action.op == Op::kReduceWait) {
      if (rounds.waited(worker, action.stage) < rounds.members(action.stage)) return false;
      rounds.finish(worker, action.stage);
      return true;
    }
    if (is_send(action.op)) ++held[channel(worker, action)];
    if (!is_recv(action.op)) return true;
    int& messages = held[channel(worker, action)];
    return messages > 0 && messages-- > 0;
  });
  for (std::size_t worker = 0; worker < stops.size(); ++worker) {
    if (stops[worker] == program.rows[worker].size()) continue;
    const Place at{worker, stops[worker], program.rows[worker][stops[worker]]};
    findings.add_action(Rule::kProgress, at,
                        is_recv(at.action.op)
                            ? cat("waits for worker ", channel(worker, at.action).from)
                            : std::string("waits for the other holders of its stage"),
                        ", which waits in turn: no one can go on");
  }
}

}  // namespace chimera
