#include "chimera/train/replicas.h"

#include <cstring>
#include <map>

#include "chimera/base/checksum.h"
#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/runtime/tags.h"

namespace chimera {
namespace {

// How a digest travels: first and last stage stand for the set, as in reduce_tag.
struct Packed {
  std::int64_t first, last, digest;
};

std::vector<Packed> pack(const std::vector<ReplicaDigest>& digests) {
  std::vector<Packed> packed;
  for (const auto& [stages, digest] : digests) {
    packed.push_back({stages.front(), stages.back(), digest});
  }
  return packed;
}

void send(Transport& transport, const std::vector<Packed>& digests) {
  Message message = make_message(DType::kInt64, {std::ssize(digests), 3});
  std::memcpy(message.data, digests.data(), message.bytes());
  transport.send(std::move(message), 0, kReplicaTag);
}

std::vector<Packed> recv(Transport& transport, int rank) {
  const Message message = transport.recv(rank, kReplicaTag, kForever).value();
  std::vector<Packed> digests(message.bytes() / sizeof(Packed));
  std::memcpy(digests.data(), message.data, digests.size() * sizeof(Packed));
  return digests;
}

// Replicas of a stage, by what they hold.
using Votes = std::map<std::int64_t, std::vector<int>>;  // ranks by digest

[[noreturn]] void blame(std::pair<std::int64_t, std::int64_t> stages, const Votes& votes,
                        std::int64_t steps) {
  std::vector<std::string> parties;
  for (const auto& [digest, ranks] : votes) {
    parties.push_back(cat(ranks.size() == 1 ? "rank " : "ranks ", join(ranks)));
  }
  const std::string which = stages.first == stages.second
                                ? cat("stage ", stages.first)
                                : cat("stages ", stages.first, " to ", stages.second);
  throw Error(ErrorCode::kCompute,
              cat("replicas of ", which, " differ after step ", steps, ": ", join(parties, " | "),
                  " hold different weights, but should hold the same bit for bit; suspect the "
                  "memory or network of the smaller party, and go on from the last checkpoint"));
}

}  // namespace

std::int64_t digest_of(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.detach().cpu().contiguous();
  return static_cast<std::int64_t>(
      checksum({static_cast<const std::byte*>(dense.const_data_ptr()), dense.nbytes()}));
}

void compare_replicas(Transport& transport, const std::vector<ReplicaDigest>& own,
                      std::int64_t steps) {
  if (transport.rank() != 0) return send(transport, pack(own));
  std::map<std::pair<std::int64_t, std::int64_t>, Votes> votes;  // by stages
  for (int rank = 0; rank < transport.size(); ++rank) {
    for (const Packed& packed : rank == 0 ? pack(own) : recv(transport, rank)) {
      votes[{packed.first, packed.last}][packed.digest].push_back(rank);
    }
  }
  for (const auto& [stages, parties] : votes) {
    if (parties.size() > 1) blame(stages, parties, steps);
  }
}

}  // namespace chimera
