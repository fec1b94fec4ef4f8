#include "chimera/transport/mpi/sums.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "chimera/base/check.h"
#include "chimera/transport/mpi/call.h"

namespace chimera {
namespace {

// What announces a sum; then the members, and the values of a short sum.
struct SumHead {
  Tag tag = 0;
  std::uint64_t elements = 0;
  std::uint32_t members = 0;
  std::int32_t stream = 0;
  DType dtype = DType::kFloat32;
};

constexpr int kStreams = 16000;  // 2 * stream + 1 is an MPI tag: 32767 at most, and not kShortTag
constexpr double kLetGoSeconds = 0.2;  // how long a member that leaves early waits for MPI

std::size_t head_bytes(std::size_t members) {
  return sizeof(SumHead) + members * sizeof(std::int32_t);
}

// Whether the values travel with the announcement, if anyone needs one.
bool goes_short(const SumTerms& terms) {
  return terms.members.size() == 1 ||
         head_bytes(terms.members.size()) + terms.bytes() <= kShortBytes;
}

std::vector<std::byte> announce(const SumTerms& terms, const std::byte* data, int stream) {
  std::vector<std::byte> bytes;
  bytes.reserve(kShortBytes);
  put(bytes, SumHead{.tag = terms.tag,
                     .elements = terms.elements,
                     .members = static_cast<std::uint32_t>(terms.members.size()),
                     .stream = stream,
                     .dtype = terms.dtype});
  for (const int member : terms.members) put(bytes, static_cast<std::int32_t>(member));
  if (goes_short(terms)) bytes.insert(bytes.end(), data, data + terms.bytes());
  return bytes;
}

std::string describe_terms(int rank, const SumTerms& terms) {
  return cat("rank ", rank, " gave ", terms.elements, " elements of ", info(terms.dtype).name,
             " over the ranks ", join(terms.members));
}

int size_of(MPI_Comm comm) {
  int size = 0;
  MPI_Comm_size(comm, &size);
  return size;
}

int rank_in(MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank;
}

// What a member holds of a sum.
class MpiReduction final : public Reduction {
 public:
  MpiReduction(MpiEngine& engine, const AbortReason& aborted, std::shared_ptr<MpiSumExchange> sum)
      : engine_(engine), aborted_(aborted), sum_(std::move(sum)) {}
  MpiReduction(const MpiReduction&) = delete;
  MpiReduction& operator=(const MpiReduction&) = delete;

  // Before the end, so after an error: takes back what it can. A peer that has not heard of the
  // abort may still read the buffer for a moment, and nobody writes to it once this returns: only
  // receives that MPI has already begun to fill cannot be withdrawn, and these are waited for.
  ~MpiReduction() override {
    MpiEngine::Lock lock = engine_.lock();
    if (sum_->done()) return;
    sum_->leave();
    engine_.requests().cancel(sum_.get());
    engine_.wait(lock, kLetGoSeconds, [&] { return engine_.requests().count(sum_.get()) == 0; });
  }

  bool wait(double wait_s) override {
    MpiEngine::Lock lock = engine_.lock();
    return engine_.wait(lock, wait_s, [&] {
      aborted_.throw_if_set();
      return sum_->done();
    });
  }

  double done_s() const override { return sum_->done_s(); }

 private:
  MpiEngine& engine_;
  const AbortReason& aborted_;
  const std::shared_ptr<MpiSumExchange> sum_;
};

}  // namespace

MpiSums::MpiSums(MpiEngine& engine, MPI_Comm comm, const AbortReason& aborted)
    : wire_{.engine = engine, .comm = comm, .rank = rank_in(comm), .scratch = scratch_},
      aborted_(aborted),
      inbox_(engine, comm,
             std::max(kShortBytes, head_bytes(static_cast<std::size_t>(size_of(comm)))),
             [this](std::span<const std::byte> bytes, int from) { announced(bytes, from); }) {}

std::unique_ptr<Reduction> MpiSums::begin(Buffer buffer, std::span<const int> members, Tag tag) {
  const SumTerms terms{.tag = tag,
                       .dtype = buffer.dtype,
                       .elements = buffer.elements,
                       .members = {members.begin(), members.end()}};
  CHECK(std::ranges::is_sorted(members) && std::ranges::binary_search(members, wire_.rank));
  next_stream_ = next_stream_ % kStreams + 1;
  // Announced even if it contradicts: then the others find out too.
  const std::vector<std::byte> bytes = announce(terms, buffer.data, next_stream_);
  for (const int member : members) {
    if (member == wire_.rank) continue;
    send_short(wire_.engine, wire_.comm, std::make_shared<std::vector<std::byte>>(bytes), member,
               this);
  }
  const Exchange sum = find_or_open(wire_.rank, terms);
  sum->join_here(buffer.data, goes_short(terms), next_stream_);
  close_if_complete(*sum);
  return std::make_unique<MpiReduction>(wire_.engine, aborted_, sum);
}

void MpiSums::announced(std::span<const std::byte> bytes, int from) {
  SumHead head;
  CHECK(bytes.size() >= sizeof head);
  std::memcpy(&head, bytes.data(), sizeof head);
  CHECK(bytes.size() >= head_bytes(head.members));
  SumTerms terms{.tag = head.tag, .dtype = head.dtype, .elements = head.elements};
  terms.members.resize(head.members);
  std::memcpy(terms.members.data(), bytes.data() + sizeof head,
              head.members * sizeof(std::int32_t));
  const Exchange sum = find_or_open(from, terms);
  sum->join_peer(from, bytes.subspan(head_bytes(head.members)), head.stream);
  close_if_complete(*sum);
}

// The oldest sum with these members and this tag that waits for `rank`, or a new one.
MpiSums::Exchange MpiSums::find_or_open(int rank, const SumTerms& terms) {
  const auto is_member = [&](int other) {
    return std::ranges::binary_search(terms.members, other);
  };
  for (const Exchange& sum : open_) {
    const SumTerms& other = sum->terms();
    if (other.tag != terms.tag || std::ranges::none_of(other.members, is_member)) continue;
    const bool same_members = other.members == terms.members;
    if (same_members && sum->has_joined(rank)) continue;
    if (same_members && other.dtype == terms.dtype && other.elements == terms.elements) return sum;
    throw Error(ErrorCode::kPeer,
                cat("the sum with tag ", terms.tag, " differs between its members: ",
                    describe_terms(sum->opener(), other), ", but ", describe_terms(rank, terms),
                    "; all must agree, so check that every rank runs the same model and layout"));
  }
  return open_.emplace_back(std::make_shared<MpiSumExchange>(wire_, terms, rank));
}

void MpiSums::close_if_complete(const MpiSumExchange& sum) {
  if (!sum.all_joined()) return;
  std::erase_if(open_, [&](const Exchange& open) { return open.get() == &sum; });
}

}  // namespace chimera
