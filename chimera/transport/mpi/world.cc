#include <utility>

#include "chimera/base/check.h"
#include "chimera/transport/mpi/aborts.h"
#include "chimera/transport/mpi/call.h"
#include "chimera/transport/mpi/engine.h"
#include "chimera/transport/mpi/exit_guard.h"
#include "chimera/transport/mpi/messages.h"
#include "chimera/transport/mpi/process.h"
#include "chimera/transport/mpi/sums.h"
#include "chimera/transport/sum.h"

namespace chimera {
namespace {

constexpr double kMakeWorldSeconds = 60;
constexpr double kEndAfterAbortSeconds = 3;
constexpr double kCancelSeconds = 0.2;
constexpr double kSpreadSeconds = 2;  // for the decision of whoever spreads aborts

MPI_Comm copy(MPI_Comm comm) {
  MPI_Comm duplicate = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(comm, &duplicate), "make a communicator");
  return duplicate;
}

}  // namespace

struct MpiWorld::State {
  State(MpiProcess::State& owner, MPI_Comm world, const MpiOptions& options)
      : process(owner),
        end_s(options.end_s),
        control(world),
        messages_comm(copy(world)),
        sums_comm(copy(world)),
        engine(owner.crowded),
        aborts(engine, control, aborted),
        messages(engine, messages_comm, options.part_bytes),
        sums(engine, sums_comm, aborted) {
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    engine.at_each_look([this] { aborts.look(); });
    engine.on_error([this](const std::string& why) {
      const std::string text = cat("rank ", rank, ": ", why);
      if (spread) {
        spread(text);  // it does not wait: the lock is held
      } else {
        aborts.ask(text);
      }
    });
    engine.start();
  }
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void abort(const std::string& why) noexcept;
  void abort_here(const std::string& why) noexcept;
  [[nodiscard]] bool wait_for_all(MpiEngine::Lock& lock);
  void let_go(MpiEngine::Lock& lock, bool together);

  MpiProcess::State& process;
  double end_s;
  MPI_Comm control, messages_comm, sums_comm;
  int rank = 0, size = 1;
  bool handed_out = false;
  std::function<void(const std::string&)> spread = {};
  AbortReason aborted;
  MpiEngine engine;
  MpiAborts aborts;
  MpiMessages messages;
  MpiSums sums;
};

namespace {

class MpiTransport final : public Transport {
 public:
  explicit MpiTransport(MpiWorld::State& world) : world_(world) {}

  int rank() const override { return world_.rank; }
  int size() const override { return world_.size; }

  void send(Message message, int to, Tag tag) override {
    CHECK(to >= 0 && to < size() && to != rank());
    const MpiEngine::Lock lock = world_.engine.lock();
    world_.aborted.throw_if_set();
    message.tag = tag;
    world_.messages.send(std::move(message), to);
  }

  std::optional<Message> recv(int from, Tag, double wait_s) override {
    CHECK(from >= 0 && from < size() && from != rank());
    MpiEngine::Lock lock = world_.engine.lock();
    const bool there = world_.engine.wait(lock, wait_s, [&] {
      world_.aborted.throw_if_set();
      return world_.messages.has(from);
    });
    if (!there) return std::nullopt;
    return world_.messages.take(from);
  }

  std::unique_ptr<Reduction> all_reduce_sum(Buffer buffer, std::span<const int> members,
                                            Tag tag) override {
    check_can_sum(buffer.dtype);
    try {
      const MpiEngine::Lock lock = world_.engine.lock();
      world_.aborted.throw_if_set();
      return world_.sums.begin(buffer, members, tag);
    } catch (const Error& error) {
      abort(error.what());
      world_.aborted.throw_if_set();
      throw;
    }
  }

  void abort(const std::string& why) noexcept override { world_.abort(why); }

 private:
  MpiWorld::State& world_;
};

}  // namespace

// ---- aborts

// Returns when the reason is set: whatever comes next throws it.
void MpiWorld::State::abort(const std::string& why) noexcept {
  if (aborted.is_set()) return;
  if (spread) {
    spread(why);
  } else {
    const MpiEngine::Lock lock = engine.lock();
    aborts.ask(why);
  }
  MpiEngine::Lock lock = engine.lock();
  if (!engine.wait(lock, kSpreadSeconds, [this] { return aborted.is_set(); })) aborts.decide(why);
}

void MpiWorld::State::abort_here(const std::string& why) noexcept {
  const MpiEngine::Lock lock = engine.lock();
  aborts.decide(why);
}

// ---- the end

// Whether all ranks got here, with what they had sent gone.
bool MpiWorld::State::wait_for_all(MpiEngine::Lock& lock) {
  double end = now_s() + end_s;
  const auto patience_s = [&] {
    if (aborted.is_set()) end = std::min(end, now_s() + kEndAfterAbortSeconds);
    return end - now_s();
  };
  const auto wait = [&](const auto& done) {
    while (!engine.wait(lock, std::min(patience_s(), 0.1), done)) {
      if (patience_s() <= 0) return false;
    }
    return true;
  };
  if (!wait([this] { return aborted.is_set() || engine.requests().work() == 0; })) return false;
  MPI_Request barrier = MPI_REQUEST_NULL;
  if (MPI_Ibarrier(control, &barrier) != MPI_SUCCESS) return false;
  return wait([&] {
    int all = 0;
    return MPI_Test(&barrier, &all, MPI_STATUS_IGNORE) == MPI_SUCCESS && all != 0;
  });
}

// Withdraws what still waits. What MPI does not give back is kept for as long as MPI may touch it.
void MpiWorld::State::let_go(MpiEngine::Lock& lock, bool together) {
  MpiRequests& requests = engine.requests();
  requests.cancel(nullptr);
  engine.wait(lock, together ? kCancelSeconds : 0, [&] { return requests.size() == 0; });
  if (requests.size() == 0 && together) {
    for (MPI_Comm* comm : {&sums_comm, &messages_comm, &control}) MPI_Comm_free(comm);
  } else {
    process.unfinished.push_back(std::move(requests));
    requests = {};
  }
}

MpiWorld::State::~State() {
  const bool together = [this] {
    MpiEngine::Lock lock = engine.lock();
    return wait_for_all(lock);
  }();
  engine.stop();
  MpiEngine::Lock lock = engine.lock();
  if (!together) process.finalize = false;
  let_go(lock, together);
}

// ---- MpiWorld

MpiWorld::MpiWorld(MpiProcess& process, MpiOptions options) {
  MpiProcess::State& owner = process.state();
  const int ranks = options.ranks == 0 ? owner.size : options.ranks;
  if (ranks < 1 || ranks > owner.size) {
    throw Error(ErrorCode::kUsage, cat("a world of ", ranks, " ranks over ", owner.size,
                                       " MPI processes; expected 1 to ", owner.size,
                                       ", so start more with mpirun -n"));
  }
  const ExitGuard guard(kMakeWorldSeconds,
                        cat("MPI rank ", owner.rank, " waited ", kMakeWorldSeconds,
                            " s for the other ranks to set up communication; one "
                            "has stopped, or is not part of this job"));
  MPI_Comm world = MPI_COMM_NULL;
  const bool inside = owner.rank < ranks;
  check_mpi(MPI_Comm_split(MPI_COMM_WORLD, inside ? 0 : MPI_UNDEFINED, owner.rank, &world),
            "make a communicator");
  if (inside) state_ = std::make_unique<State>(owner, world, options);
}

MpiWorld::~MpiWorld() = default;

std::unique_ptr<Transport> MpiWorld::transport() {
  CHECK(state_ && !state_->handed_out);
  state_->handed_out = true;
  return std::make_unique<MpiTransport>(*state_);
}

void MpiWorld::abort(const std::string& why) noexcept {
  if (state_) state_->abort_here(why);
}

std::string MpiWorld::aborted() const { return state_ ? state_->aborted.text() : std::string(); }

void MpiWorld::spread_aborts_by(std::function<void(const std::string&)> spread) {
  CHECK(state_);
  const MpiEngine::Lock lock = state_->engine.lock();
  state_->spread = std::move(spread);
}

}  // namespace chimera
