#include "chimera/runtime/waiting_stage.h"

#include <utility>

#include "chimera/base/clock.h"
#include "chimera/base/error.h"
#include "chimera/base/text.h"

namespace chimera {

void wait_precisely(double seconds) {
  const double end_s = now_s() + seconds;
  constexpr double kWakeUp = 60e-6;
  if (end_s - now_s() > kWakeUp) sleep_until(end_s - kWakeUp);
  while (now_s() < end_s) {
  }
}

WaitingStage::WaitingStage(const WaitingStageSpec& spec)
    : spec_(spec), gradient_(spec.gradient_elements) {}

void WaitingStage::work(double seconds, double bytes) const {
  const HeldBytes held(spec_.meter, bytes);
  if (spec_.clock == nullptr) return wait_precisely(seconds);
  spec_.clock->wait_until(spec_.clock->now_s() + seconds);
}

void WaitingStage::claim(double bytes) const {
  if (spec_.meter != nullptr && bytes != 0) spec_.meter->add(bytes);
}

Message WaitingStage::message(double claimed_bytes) const {
  Message message = make_message(DType::kUInt8, {spec_.message_bytes});
  if (spec_.meter == nullptr || claimed_bytes == 0) return message;
  // Whoever drops the message, on whichever rank, ends the claim.
  struct Claimed {
    Claimed(ByteMeter* meter, double claimed, std::shared_ptr<void> real)
        : held(meter, claimed), bytes(std::move(real)) {}
    HeldBytes held;
    std::shared_ptr<void> bytes;
  };
  message.owner = std::make_shared<Claimed>(spec_.meter, claimed_bytes, std::move(message.owner));
  return message;
}

Message WaitingStage::forward(int micro, Message input, ForwardUse use) {
  input = {};  // it counts among the stash from now on
  claim(use.recomputed ? spec_.memory.kept : spec_.memory.stash);
  work(spec_.forward_s,
       use.recomputed ? spec_.memory.kept_forward_work : spec_.memory.forward_work);
  if (!use.recomputed) stash_.insert(micro);
  return spec_.stage + 1 < spec_.stages ? message(spec_.memory.activation) : Message{};
}

void WaitingStage::recompute(int micro, int) {
  claim(spec_.memory.stash - spec_.memory.kept);
  work(spec_.recompute_s.value_or(spec_.forward_s), spec_.memory.recompute_work);
  stash_.insert(micro);
}

Message WaitingStage::backward(int micro, Message gradient) {
  if (stash_.erase(micro) == 0) {
    throw Error(ErrorCode::kUsage, cat("backward of micro-batch ", micro, " without its forward"));
  }
  gradient = {};
  work(spec_.backward_s, spec_.memory.backward_work);
  Message input_gradient = spec_.stage > 0 ? message(spec_.input_bytes) : Message{};
  claim(-spec_.memory.stash);
  return input_gradient;
}

std::vector<Gradient> WaitingStage::gradients() {
  Buffer buffer{DType::kFloat32, reinterpret_cast<std::byte*>(gradient_.data()), gradient_.size()};
  return {{buffer, {spec_.stage}}};
}

}  // namespace chimera
