#include "chimera/schedule/transfers.h"

#include <algorithm>
#include <tuple>

#include "chimera/base/text.h"

namespace chimera {
namespace {

// What a message carries: the same for its send and its receive.
auto content(const Transfer& transfer) {
  const Action& action = transfer.action;
  const bool activation = action.op == Op::kSendActivation || action.op == Op::kRecvActivation;
  const int receiver = is_send(action.op) ? peer_stage(action) : int{action.stage};
  return std::tuple(activation, receiver, action.micro, action.pipe);
}

bool same(const Transfer& a, const Transfer& b) { return content(a) == content(b); }

Violation fault(const Transfer& transfer, const std::string& what) {
  return {Rule::kChannel, static_cast<int>(transfer.worker), static_cast<int>(transfer.position),
          transfer.action, cat(to_string(transfer.action), " ", what)};
}

// Those of `these` that have no partner in `others`, each reported once.
bool report_unmatched(const std::vector<Transfer>& these, const std::vector<Transfer>& others,
                      const char* what, std::vector<Violation>& violations) {
  std::map<decltype(content(these[0])), int> open;
  for (const Transfer& other : others) ++open[content(other)];
  bool found = false;
  for (const Transfer& transfer : these) {
    if (open[content(transfer)]-- > 0) continue;
    violations.push_back(fault(transfer, what));
    found = true;
  }
  return found;
}

void check_channel(const std::vector<Transfer>& sends, const std::vector<Transfer>& recvs,
                   std::vector<Violation>& violations) {
  if (std::equal(sends.begin(), sends.end(), recvs.begin(), recvs.end(), same)) return;
  const bool sent_alone = report_unmatched(sends, recvs, "has no receive", violations);
  const bool received_alone = report_unmatched(recvs, sends, "has no send", violations);
  if (sent_alone || received_alone) return;
  const auto [send, recv] = std::mismatch(sends.begin(), sends.end(), recvs.begin(), same);
  violations.push_back(fault(*recv, cat("takes another message than the next on its channel, ",
                                        to_string(send->action), " of worker ", send->worker)));
}

}  // namespace

void Transfers::add(const Transfer& transfer, ChannelEnds ends) {
  Ends& channel = channels_[ends];
  (is_send(transfer.action.op) ? channel.sends : channel.recvs).push_back(transfer);
}

void Transfers::check(std::vector<Violation>& violations) const {
  for (const auto& [ends, channel] : channels_) {
    if (ends.from != ends.to) {
      check_channel(channel.sends, channel.recvs, violations);
      continue;
    }
    for (const auto* side : {&channel.sends, &channel.recvs}) {
      for (const Transfer& transfer : *side) {
        violations.push_back(fault(transfer, "is a message of a worker to itself"));
      }
    }
  }
}

std::vector<Channel> Transfers::channels() const {
  std::vector<Channel> list;
  for (const auto& [ends, channel] : channels_) {
    list.push_back({ends.from, ends.to, static_cast<int>(channel.sends.size()), 0});
  }
  return list;
}

}  // namespace chimera
