#include "chimera/runtime/waiting_stage.h"

#include <sys/prctl.h>

#include <chrono>
#include <thread>

#include "chimera/base/error.h"
#include "chimera/base/text.h"

namespace chimera {

void wait_precisely(double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(seconds));
  // The kernel may join timers within a thread's slack, 50 us unless told otherwise.
  thread_local const int slack = prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  static_cast<void>(slack);
  constexpr auto kWakeUp = std::chrono::microseconds(60);
  if (end - Clock::now() > kWakeUp) std::this_thread::sleep_until(end - kWakeUp);
  while (Clock::now() < end) {
  }
}

WaitingStage::WaitingStage(const WaitingStageSpec& spec)
    : spec_(spec), gradient_(spec.gradient_elements) {}

Message WaitingStage::message() const { return make_message(DType::kUInt8, {spec_.message_bytes}); }

Message WaitingStage::forward(int micro, Message, ForwardUse use) {
  wait_precisely(spec_.forward_s);
  if (!use.recomputed) stash_.insert(micro);
  return spec_.stage + 1 < spec_.stages ? message() : Message{};
}

void WaitingStage::recompute(int micro, int) {
  wait_precisely(spec_.forward_s);
  stash_.insert(micro);
}

Message WaitingStage::backward(int micro, Message) {
  if (stash_.erase(micro) == 0) {
    throw Error(ErrorCode::kUsage, cat("backward of micro-batch ", micro, " without its forward"));
  }
  wait_precisely(spec_.backward_s);
  return spec_.stage > 0 ? message() : Message{};
}

std::vector<Gradient> WaitingStage::gradients() {
  Buffer buffer{DType::kFloat32, reinterpret_cast<std::byte*>(gradient_.data()), gradient_.size()};
  return {{buffer, {spec_.stage}}};
}

}  // namespace chimera
