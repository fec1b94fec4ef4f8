// The MPI operations under way, and what is to be done when each ends. Internal to transport/mpi.
//
// Not thread-safe: the engine's lock is held. All requests are asked after in one call, for each
// call makes MPI look at all its connections.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace chimera {

class MpiRequests {
 public:
  // Owns whatever memory the operation works on, so that it lives as long as MPI may touch it.
  using Done = std::function<void(const MPI_Status&)>;
  using OnError = std::function<void(const std::string&)>;

  enum class Use {
    kSend,
    kReceive,   // of something announced
    kStanding,  // a receive that waits for whatever comes; not counted as work
  };

  void add(MPI_Request request, Use use, const void* owner, Done done);

  // Calls what is to be done for all that ended; true if something did. What MPI reports, and what
  // that throws, goes to on_error.
  bool poll(const OnError& on_error);

  // Operations under way but the standing ones; of one owner, or of all.
  [[nodiscard]] std::size_t work() const { return work_; }
  [[nodiscard]] std::size_t count(const void* owner) const;
  [[nodiscard]] std::size_t size() const { return handles_.size(); }

  // Withdraws receives of an owner, or all for nullptr. They end when MPI says so in a later poll,
  // and nothing is done then. Sends cannot be withdrawn; nothing is done when they end.
  void cancel(const void* owner);

 private:
  struct Operation {
    Use use;
    const void* owner;
    Done done;
    bool withdrawn = false;  // `done` then only keeps the memory
  };

  void take_out(std::size_t index);

  std::vector<MPI_Request> handles_;  // contiguous, for MPI
  std::vector<Operation> operations_;
  std::size_t work_ = 0;
  std::vector<int> ended_;            // scratch of poll()
  std::vector<MPI_Status> statuses_;  // scratch of poll()
};

}  // namespace chimera
