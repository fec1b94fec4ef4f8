// One all-reduce, as one member sees it: what it sends, receives and adds. Internal to
// transport/mpi.
//
// Short sums: each member has sent its values to all others and adds all of them itself.
//
// Long ones: member p owns the p-th piece of the buffer. All send their part of it to p, which adds
// them in rank order and sends the sum to all; so each byte is received once and sent once, at each
// member but for its own piece, which is the least that an all-reduce needs, and the order of
// additions is fixed, which MPI_Allreduce's is not. For members 0 1 2 and pieces A B C:
//
//     0 --B--> 1   0 --C--> 2        then      0 --A--> 1, 2
//     1 --A--> 0   1 --C--> 2                  1 --B--> 0, 2
//     2 --A--> 0   2 --B--> 1                  2 --C--> 0, 1
//
// Pieces go in chunks, so that adding one, which has just come into the cache, goes on while others
// travel, and a sum needs scratch memory for a few chunks of each member only. At most kWindow
// chunks of each stream are under way. A result is received into the place whose contribution has
// left for good. Streams are kept apart by MPI tags that the sender chose: even for contributions,
// odd for results.
// The order of additions is tested by transport_contract_test.cc.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "chimera/transport/abort_reason.h"
#include "chimera/transport/message.h"
#include "chimera/transport/mpi/engine.h"

namespace chimera {

// What all members must agree on.
struct SumTerms {
  Tag tag = 0;
  DType dtype = DType::kFloat32;
  std::size_t elements = 0;
  std::vector<int> members = {};  // ascending

  [[nodiscard]] std::size_t bytes() const { return elements * info(dtype).bytes; }
};

// Memory for chunks on their way, used again and again.
class ScratchPool {
 public:
  using Chunk = std::shared_ptr<std::byte>;
  [[nodiscard]] Chunk get(std::size_t bytes);
  void give_back(Chunk chunk);

 private:
  std::vector<Chunk> free_;
};

// What the sums of a rank share.
struct SumWire {
  MpiEngine& engine;
  MPI_Comm comm;
  int rank;
  ScratchPool& scratch;
};

class MpiSumExchange : public std::enable_shared_from_this<MpiSumExchange> {
 public:
  // `opener` came first.
  MpiSumExchange(SumWire& wire, SumTerms terms, int opener);

  [[nodiscard]] const SumTerms& terms() const { return terms_; }
  [[nodiscard]] int opener() const { return opener_; }
  [[nodiscard]] bool has_joined(int rank) const { return peers_[place(rank)].joined; }
  [[nodiscard]] bool all_joined() const { return missing_ == 0; }
  [[nodiscard]] bool done() const { return done_s_ > 0; }
  [[nodiscard]] double done_s() const { return done_s_; }

  // This member has come. `is_short` as announced; `stream` numbers what it sends.
  void join_here(std::byte* data, bool is_short, int stream);
  // Another has, with its values if the sum is short.
  void join_peer(int rank, std::span<const std::byte> values, int stream);

  // The buffer is touched no more, but by MPI for what has already begun.
  void leave() { left_ = true; }

 private:
  // What goes on with another member. What is begun is counted in chunks.
  struct Peer {
    bool joined = false;
    int stream = 0;
    std::vector<std::byte> values;        // of a short sum
    std::size_t contributions_begun = 0;  // to its piece
    std::size_t results_begun = 0;        // from its piece
    std::size_t gathered_begun = 0;       // from it to the own piece
    std::vector<char> left = {};          // contributions that have left, by chunk of its piece
  };
  struct Piece {
    std::size_t begin = 0, end = 0, chunks = 0;
  };
  // A chunk of the own piece that is gathered.
  struct Gathered {
    std::vector<ScratchPool::Chunk> from;  // by place
    std::size_t missing = 0;
  };

  [[nodiscard]] std::size_t place(int rank) const;
  [[nodiscard]] Piece piece(std::size_t place) const;
  void joined(std::size_t place);
  void add_short();
  void begin_long();
  void push(std::size_t peer);
  void push_all();
  void contribute(std::size_t peer);
  void expect_result(std::size_t peer);
  void gather(std::size_t peer);
  void gathered(std::size_t chunk);
  void add_up(std::size_t chunk);
  void send_result(std::size_t peer, std::size_t chunk);
  [[nodiscard]] std::span<std::byte> chunk_of(std::size_t place, std::size_t chunk) const;
  void start(MPI_Request request, bool is_send, std::function<void()> then);

  SumWire& wire_;
  const SumTerms terms_;
  const int opener_;
  const std::size_t here_;   // this member's place
  std::vector<Peer> peers_;  // by place; the own one has no streams
  std::size_t missing_;      // members that have not come
  std::byte* data_ = nullptr;
  int stream_ = 0;
  bool short_ = false;
  bool left_ = false;
  double done_s_ = 0;
  std::vector<Piece> pieces_;       // by place
  std::vector<Gathered> gathered_;  // by chunk of the own piece
  std::size_t first_open_ = 0;      // chunks of the own piece before it are added up
  std::size_t pending_ = 0;         // operations to begin or to end
};

}  // namespace chimera
