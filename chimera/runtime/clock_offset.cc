// Cristian's algorithm ("Probabilistic clock synchronization", 1989): rank 0 answers with its time,
// taken to be read in the middle of the round trip; the fastest of several is the most exact.
#include "chimera/runtime/clock_offset.h"

#include <cstring>
#include <limits>

#include "chimera/base/clock.h"
#include "chimera/runtime/tags.h"

namespace chimera {
namespace {

constexpr int kRounds = 8;

void send_time(Transport& transport, int to) {
  Message message = make_message(DType::kFloat64, {});
  const double now = now_s();
  std::memcpy(message.data, &now, sizeof now);
  transport.send(std::move(message), to, kClockTag);
}

double recv_time(Transport& transport, int from) {
  double time = 0;
  const Message message = transport.recv(from, kClockTag, kForever).value();
  std::memcpy(&time, message.data, sizeof time);
  return time;
}

}  // namespace

double clock_offset_s(Transport& transport) {
  if (transport.rank() == 0) {
    for (int rank = 1; rank < transport.size(); ++rank) {
      for (int round = 0; round < kRounds; ++round) {
        static_cast<void>(recv_time(transport, rank));
        send_time(transport, rank);
      }
    }
    return 0;
  }
  double offset = 0, fastest = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kRounds; ++round) {
    const double asked = now_s();
    send_time(transport, 0);
    const double there = recv_time(transport, 0);
    const double answered = now_s();
    if (answered - asked >= fastest) continue;
    fastest = answered - asked;
    offset = (asked + answered) / 2 - there;
  }
  return offset;
}

}  // namespace chimera
