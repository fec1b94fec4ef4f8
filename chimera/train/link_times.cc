#include "chimera/train/link_times.h"

#include <cmath>
#include <functional>

#include "chimera/base/clock.h"
#include "chimera/train/timing.h"

namespace chimera {
namespace {

constexpr Tag kPingTag = 1, kSumTag = 2;
constexpr std::size_t kLine = 64;  // bytes that a core fetches at a time
constexpr int kWarmUps = 3;

void touch(const Message& message) {
  for (std::size_t i = 0; i < message.bytes(); i += kLine) {
    message.data[i] = static_cast<std::byte>(static_cast<unsigned>(message.data[i]) + 1);
  }
}

// Of `act`, after a few that do not count.
double typical_time(int repeats, const std::function<void()>& act) {
  std::vector<double> times;
  for (int i = -kWarmUps; i < repeats; ++i) {
    const double began_s = now_s();
    act();
    if (i >= 0) times.push_back(now_s() - began_s);
  }
  return timing_of(std::move(times)).typical_s;
}

void pass_on(Transport& transport, Message message, int to) {
  touch(message);
  transport.send(std::move(message), to, kPingTag);
}

void echo(Transport& transport) {
  pass_on(transport, transport.recv(0, kPingTag, kForever).value(), 0);
}

}  // namespace

std::vector<SizedTime> time_messages(Transport& transport, const std::vector<std::size_t>& sizes,
                                     int repeats) {
  std::vector<SizedTime> times;
  for (const std::size_t size : sizes) {
    if (transport.rank() == 1) {
      for (int i = -kWarmUps; i < repeats; ++i) echo(transport);
    }
    if (transport.rank() != 0) continue;
    Message message = make_message(DType::kUInt8, {static_cast<std::int64_t>(size)});
    const double round_s = typical_time(repeats, [&] {
      pass_on(transport, std::move(message), 1);
      message = transport.recv(1, kPingTag, kForever).value();
    });
    times.push_back({static_cast<double>(size), round_s / 2});
  }
  return times;
}

std::vector<SizedTime> time_sums(Transport& transport, const std::vector<std::size_t>& sizes,
                                 int repeats) {
  const std::vector<int> everyone = all_ranks(transport);
  std::vector<SizedTime> times;
  for (const std::size_t size : sizes) {
    std::vector<float> values(size / sizeof(float), 0.0F);
    float vote = 0;
    const auto sum = [&](float* data, std::size_t count) {
      const Buffer buffer{DType::kFloat32, reinterpret_cast<std::byte*>(data), count};
      finish(*transport.all_reduce_sum(buffer, everyone, kSumTag));
    };
    std::vector<double> measured;
    for (int i = -kWarmUps; i < repeats; ++i) {
      sum(&vote, 1);  // so that all begin together
      const double began_s = now_s();
      sum(values.data(), values.size());
      if (i >= 0) measured.push_back(now_s() - began_s);
    }
    times.push_back({static_cast<double>(size), timing_of(std::move(measured)).typical_s});
  }
  if (transport.rank() != 0) times.clear();
  return times;
}

LinkFit fit_hop(std::vector<SizedTime> sums, int ranks) {
  for (SizedTime& sum : sums) sum.bytes *= 2 * (ranks - 1.0) / ranks;
  LinkFit fit = fit_link(sums);
  fit.link.latency_s /= 2 * std::log2(ranks);
  return fit;
}

}  // namespace chimera
