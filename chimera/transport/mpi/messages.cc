#include "chimera/transport/mpi/messages.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "chimera/base/check.h"
#include "chimera/transport/mpi/call.h"

namespace chimera {
namespace {

constexpr std::size_t kMostExtents = 16;
constexpr int kPartTag = 1;
constexpr std::size_t kPooledBytes = std::size_t{64} << 10;

// What goes in front; then the extents, and the bytes if they are as many as fit. All ranks run one
// program, so it travels as it lies in memory.
struct MessageHead {
  Tag tag = 0;
  Envelope envelope;
  std::uint64_t bytes = 0;
  std::uint32_t extents = 0;
  DType dtype = DType::kUInt8;
};

constexpr std::size_t kInlineBytes =
    kShortBytes - sizeof(MessageHead) - kMostExtents * sizeof(std::int64_t);

std::shared_ptr<std::vector<std::byte>> encode(const Message& message) {
  const MessageHead head{.tag = message.tag,
                         .envelope = message.envelope,
                         .bytes = message.bytes(),
                         .extents = static_cast<std::uint32_t>(message.shape.size()),
                         .dtype = message.dtype};
  auto bytes = std::make_shared<std::vector<std::byte>>();
  bytes->reserve(kShortBytes);
  put(*bytes, head);
  for (const std::int64_t extent : message.shape) put(*bytes, extent);
  if (head.bytes <= kInlineBytes) {
    bytes->insert(bytes->end(), message.data, message.data + head.bytes);
  }
  return bytes;
}

// Calls part(data, bytes) for each part of the message.
template <class Part>
void for_each_part(const Message& message, std::size_t part_bytes, const Part& part) {
  for (std::size_t begin = 0; begin < message.bytes(); begin += part_bytes) {
    part(message.data + begin, static_cast<int>(std::min(part_bytes, message.bytes() - begin)));
  }
}

}  // namespace

MpiMessages::MpiMessages(MpiEngine& engine, MPI_Comm comm, std::size_t part_bytes)
    : engine_(engine),
      comm_(comm),
      part_bytes_(part_bytes),
      channels_([comm] {
        int size = 0;
        MPI_Comm_size(comm, &size);
        return static_cast<std::size_t>(size);
      }()),
      inbox_(engine, comm, kShortBytes,
             [this](std::span<const std::byte> bytes, int from) { announced(bytes, from); }) {
  CHECK(part_bytes > 0 && part_bytes <= std::size_t{1} << 30);
}

void MpiMessages::send(Message message, int to) {
  if (message.shape.size() > kMostExtents) {
    throw Error(ErrorCode::kUsage, cat("cannot send a message of ", message.shape.size(),
                                       " dimensions over MPI; expected ", kMostExtents,
                                       " or fewer, so give it fewer"));
  }
  send_short(engine_, comm_, encode(message), to, this);
  if (message.bytes() <= kInlineBytes) return;
  for_each_part(message, part_bytes_, [&](std::byte* data, int bytes) {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Isend(data, bytes, MPI_BYTE, to, kPartTag, comm_, &request), "send");
    engine_.requests().add(request, MpiRequests::Use::kSend, this,
                           [owner = message.owner](const MPI_Status&) {});
  });
}

// Uninitialised, as from make_message.
Message MpiMessages::fresh(DType dtype, std::vector<std::int64_t> shape) {
  Message message;
  message.dtype = dtype;
  message.shape = std::move(shape);
  const std::size_t bytes = message.bytes();
  if (bytes < kPooledBytes) return make_message(dtype, std::move(message.shape));
  message.owner = pool_.get(bytes);
  message.data = static_cast<std::byte*>(message.owner.get());
  return message;
}

void MpiMessages::announced(std::span<const std::byte> bytes, int from) {
  MessageHead head;
  CHECK(bytes.size() >= sizeof head);
  std::memcpy(&head, bytes.data(), sizeof head);
  CHECK(head.extents <= kMostExtents);
  std::vector<std::int64_t> shape(head.extents);
  const std::size_t shape_bytes = shape.size() * sizeof(std::int64_t);
  CHECK(bytes.size() >= sizeof head + shape_bytes);
  if (shape_bytes > 0) std::memcpy(shape.data(), bytes.data() + sizeof head, shape_bytes);

  const auto incoming = std::make_shared<Incoming>();
  Message& message = incoming->message = fresh(head.dtype, std::move(shape));
  CHECK(message.bytes() == head.bytes);
  message.tag = head.tag;
  message.envelope = head.envelope;
  channels_[static_cast<std::size_t>(from)].push_back(incoming);
  if (head.bytes <= kInlineBytes) {
    const std::span<const std::byte> data = bytes.subspan(sizeof head + shape_bytes);
    CHECK(data.size() == head.bytes);
    std::copy(data.begin(), data.end(), message.data);
    return;
  }
  for_each_part(message, part_bytes_, [&](std::byte* data, int part) {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Irecv(data, part, MPI_BYTE, from, kPartTag, comm_, &request), "receive");
    ++incoming->missing_parts;
    engine_.requests().add(request, MpiRequests::Use::kReceive, this,
                           [incoming](const MPI_Status&) { --incoming->missing_parts; });
  });
}

bool MpiMessages::has(int from) const {
  return !channel(from).empty() && channel(from).front()->missing_parts == 0;
}

Message MpiMessages::take(int from) {
  Channel& channel = channels_[static_cast<std::size_t>(from)];
  Message message = std::move(channel.front()->message);
  channel.pop_front();
  return message;
}

}  // namespace chimera
