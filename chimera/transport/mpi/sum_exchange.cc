#include "chimera/transport/mpi/sum_exchange.h"

#include <algorithm>
#include <utility>

#include "chimera/base/check.h"
#include "chimera/base/clock.h"
#include "chimera/transport/mpi/call.h"
#include "chimera/transport/sum.h"

namespace chimera {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{256} << 10;
constexpr std::size_t kWindow = 4;       // chunks of a stream under way
constexpr std::size_t kPieceGrain = 64;  // pieces begin at multiples of so many elements
constexpr std::size_t kScratchKept = 64;

int contribution_tag(int stream) { return 2 * stream; }
int result_tag(int stream) { return 2 * stream + 1; }

}  // namespace

// ---- scratch

ScratchPool::Chunk ScratchPool::get(std::size_t bytes) {
  CHECK(bytes <= kChunkBytes);
  if (!free_.empty()) {
    Chunk chunk = std::move(free_.back());
    free_.pop_back();
    return chunk;
  }
  const Message fresh = make_message(DType::kUInt8, {static_cast<std::int64_t>(kChunkBytes)});
  return {fresh.owner, fresh.data};
}

void ScratchPool::give_back(Chunk chunk) {
  if (free_.size() < kScratchKept) free_.push_back(std::move(chunk));
}

// ---- who has come

MpiSumExchange::MpiSumExchange(SumWire& wire, SumTerms terms, int opener)
    : wire_(wire),
      terms_(std::move(terms)),
      opener_(opener),
      here_(place(wire.rank)),
      peers_(terms_.members.size()),
      missing_(terms_.members.size()) {}

std::size_t MpiSumExchange::place(int rank) const {
  return static_cast<std::size_t>(std::ranges::lower_bound(terms_.members, rank) -
                                  terms_.members.begin());
}

void MpiSumExchange::join_here(std::byte* data, bool is_short, int stream) {
  data_ = data;
  short_ = is_short;
  stream_ = stream;
  if (!short_) begin_long();
  joined(here_);
}

void MpiSumExchange::join_peer(int rank, std::span<const std::byte> values, int stream) {
  Peer& peer = peers_[place(rank)];
  peer.values.assign(values.begin(), values.end());
  peer.stream = stream;
  joined(place(rank));
}

void MpiSumExchange::joined(std::size_t place) {
  peers_[place].joined = true;
  --missing_;
  if (left_ || !peers_[here_].joined) return;
  if (!short_) return push_all();
  if (missing_ == 0) add_short();
}

// ---- short sums

void MpiSumExchange::add_short() {
  std::vector<const std::byte*> values;
  for (std::size_t p = 0; p < peers_.size(); ++p) {
    CHECK(p == here_ || peers_[p].values.size() == terms_.bytes());
    values.push_back(p == here_ ? data_ : peers_[p].values.data());
  }
  if (values.size() > 1) sum_into(terms_.dtype, values, data_, terms_.elements);
  done_s_ = now_s();
}

// ---- long sums

MpiSumExchange::Piece MpiSumExchange::piece(std::size_t place) const {
  const auto edge = [&](std::size_t p) {
    const std::size_t share = (terms_.elements + peers_.size() - 1) / peers_.size();
    const std::size_t grains = (share + kPieceGrain - 1) / kPieceGrain * kPieceGrain;
    return std::min(p * grains, terms_.elements);
  };
  const std::size_t chunk = kChunkBytes / info(terms_.dtype).bytes;
  const std::size_t begin = edge(place), end = edge(place + 1);
  return {.begin = begin, .end = end, .chunks = (end - begin + chunk - 1) / chunk};
}

std::span<std::byte> MpiSumExchange::chunk_of(std::size_t place, std::size_t chunk) const {
  const std::size_t element = info(terms_.dtype).bytes;
  const std::size_t begin = pieces_[place].begin * element + chunk * kChunkBytes;
  const std::size_t end = std::min(begin + kChunkBytes, pieces_[place].end * element);
  return {data_ + begin, end - begin};
}

void MpiSumExchange::begin_long() {
  for (std::size_t p = 0; p < peers_.size(); ++p) {
    pieces_.push_back(piece(p));
    if (p == here_) continue;
    peers_[p].left.resize(pieces_[p].chunks);
    pending_ += 2 * pieces_[p].chunks;  // contributions, and results that come back
  }
  const std::size_t others = peers_.size() - 1;
  gathered_.resize(pieces_[here_].chunks);
  for (Gathered& chunk : gathered_) {
    chunk.from.resize(peers_.size());
    chunk.missing = others;
  }
  pending_ += 2 * others * gathered_.size();  // contributions from all, and results to all
}

// Begins whatever may begin; the nearest first, each member another, so that not all send to one.
void MpiSumExchange::push_all() {
  for (std::size_t step = 1; step < peers_.size(); ++step) push((here_ + step) % peers_.size());
}

void MpiSumExchange::push(std::size_t peer) {
  if (left_) return;
  contribute(peer);
  if (!peers_[peer].joined) return;  // its streams are not known yet
  expect_result(peer);
  gather(peer);
}

void MpiSumExchange::contribute(std::size_t p) {
  Peer& peer = peers_[p];
  const auto under_way = [&] {
    return static_cast<std::size_t>(std::count(
        peer.left.begin(),
        peer.left.begin() + static_cast<std::ptrdiff_t>(peer.contributions_begun), char{0}));
  };
  while (peer.contributions_begun < peer.left.size() && under_way() < kWindow) {
    const std::size_t chunk = peer.contributions_begun++;
    const std::span<std::byte> bytes = chunk_of(p, chunk);
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, terms_.members[p],
                        contribution_tag(stream_), wire_.comm, &request),
              "send to a sum");
    start(request, true, [this, p, chunk] {
      peers_[p].left[chunk] = 1;
      push(p);
    });
  }
}

void MpiSumExchange::expect_result(std::size_t p) {
  Peer& peer = peers_[p];
  while (peer.results_begun < peer.left.size() && peer.left[peer.results_begun] != 0) {
    const std::span<std::byte> bytes = chunk_of(p, peer.results_begun++);
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Irecv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, terms_.members[p],
                        result_tag(peer.stream), wire_.comm, &request),
              "receive a sum");
    start(request, false, [] {});
  }
}

void MpiSumExchange::gather(std::size_t p) {
  Peer& peer = peers_[p];
  while (peer.gathered_begun < std::min(gathered_.size(), first_open_ + kWindow)) {
    const std::size_t chunk = peer.gathered_begun++;
    const std::size_t bytes = chunk_of(here_, chunk).size();
    const ScratchPool::Chunk scratch = wire_.scratch.get(bytes);
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Irecv(scratch.get(), static_cast<int>(bytes), MPI_BYTE, terms_.members[p],
                        contribution_tag(peer.stream), wire_.comm, &request),
              "receive for a sum");
    start(request, false, [this, p, chunk, scratch] {
      gathered_[chunk].from[p] = scratch;
      if (--gathered_[chunk].missing == 0) gathered(chunk);
    });
  }
}

// All have given their part of a chunk of the own piece.
void MpiSumExchange::gathered(std::size_t chunk) {
  add_up(chunk);
  // Sent in order, for that is how they are received.
  for (; first_open_ < gathered_.size() && gathered_[first_open_].missing == 0; ++first_open_) {
    for (std::size_t step = 1; step < peers_.size(); ++step) {
      send_result((here_ + step) % peers_.size(), first_open_);
    }
  }
  push_all();
}

void MpiSumExchange::add_up(std::size_t chunk) {
  const std::span<std::byte> own = chunk_of(here_, chunk);
  std::vector<ScratchPool::Chunk>& from = gathered_[chunk].from;
  std::vector<const std::byte*> values;
  for (std::size_t p = 0; p < peers_.size(); ++p) {
    values.push_back(p == here_ ? own.data() : from[p].get());
  }
  sum_into(terms_.dtype, values, own.data(), own.size() / info(terms_.dtype).bytes);
  from[here_].reset();
  for (ScratchPool::Chunk& scratch : from) {
    if (scratch) wire_.scratch.give_back(std::move(scratch));
  }
}

void MpiSumExchange::send_result(std::size_t p, std::size_t chunk) {
  const std::span<std::byte> bytes = chunk_of(here_, chunk);
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, terms_.members[p],
                      result_tag(stream_), wire_.comm, &request),
            "send a sum");
  start(request, true, [] {});
}

void MpiSumExchange::start(MPI_Request request, bool is_send, std::function<void()> then) {
  using Use = MpiRequests::Use;
  wire_.engine.requests().add(
      request, is_send ? Use::kSend : Use::kReceive, this,
      [self = shared_from_this(), then = std::move(then)](const MPI_Status&) {
        if (self->left_) return;
        then();
        if (--self->pending_ == 0) self->done_s_ = now_s();
      });
}

}  // namespace chimera
