#include "chimera/train/together.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "chimera/runtime/tags.h"

namespace chimera {
namespace {

Message to_message(const std::string& text) {
  Message message = make_message(DType::kUInt8, {std::ssize(text)});
  std::memcpy(message.data, text.data(), text.size());
  return message;
}

std::string recv_text(Transport& transport, int from) {
  const Message message = transport.recv(from, kCheckpointTag, kForever).value();
  return {reinterpret_cast<const char*>(message.data), message.bytes()};
}

}  // namespace

void wait_for_all(Transport& transport, const std::function<bool(double wait_s)>& done) {
  constexpr double kFirst = 1e-3, kMost = 0.2;
  std::vector<int> everyone(static_cast<std::size_t>(transport.size()));
  std::iota(everyone.begin(), everyone.end(), 0);
  bool own = false;
  for (double slice_s = kFirst;; slice_s = std::min(2 * slice_s, kMost)) {
    own = own || done(slice_s);
    std::int64_t unfinished = own ? 0 : 1;
    const Buffer vote{DType::kInt64, reinterpret_cast<std::byte*>(&unfinished), 1};
    finish(*transport.all_reduce_sum(vote, everyone, kCheckpointBeatTag));
    if (unfinished == 0) return;
  }
}

std::string told_by_rank_0(Transport& transport, const std::string& text) {
  if (transport.rank() != 0) return recv_text(transport, 0);
  for (int rank = 1; rank < transport.size(); ++rank) {
    transport.send(to_message(text), rank, kCheckpointTag);
  }
  return text;
}

std::vector<std::string> told_to_rank_0(Transport& transport, const std::string& text) {
  if (transport.rank() != 0) {
    transport.send(to_message(text), 0, kCheckpointTag);
    return {};
  }
  std::vector<std::string> texts = {text};
  for (int rank = 1; rank < transport.size(); ++rank) texts.push_back(recv_text(transport, rank));
  return texts;
}

}  // namespace chimera
