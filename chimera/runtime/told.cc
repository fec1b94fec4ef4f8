#include "chimera/runtime/told.h"

#include <cstring>
#include <utility>

namespace chimera {

void send_text(Transport& transport, int to, Tag tag, std::string_view text) {
  Message message = make_message(DType::kUInt8, {std::ssize(text)});
  std::memcpy(message.data, text.data(), text.size());
  transport.send(std::move(message), to, tag);
}

std::optional<std::string> recv_text(Transport& transport, int from, Tag tag, double wait_s) {
  const auto message = transport.recv(from, tag, wait_s);
  if (!message) return std::nullopt;
  return std::string(reinterpret_cast<const char*>(message->data), message->bytes());
}

std::string told_by_rank_0(Transport& transport, Tag tag, const std::string& text) {
  if (transport.rank() != 0) return recv_text(transport, 0, tag).value();
  for (int rank = 1; rank < transport.size(); ++rank) send_text(transport, rank, tag, text);
  return text;
}

std::vector<std::string> told_to_rank_0(Transport& transport, Tag tag, const std::string& text) {
  if (transport.rank() != 0) {
    send_text(transport, 0, tag, text);
    return {};
  }
  std::vector<std::string> texts = {text};
  for (int rank = 1; rank < transport.size(); ++rank) {
    texts.push_back(recv_text(transport, rank, tag).value());
  }
  return texts;
}

}  // namespace chimera
