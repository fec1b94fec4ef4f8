#include "chimera/runtime/launch.h"

#include <unistd.h>

#include <atomic>
#include <iostream>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/runtime/cores.h"
#include "chimera/runtime/report.h"
#include "chimera/runtime/tags.h"
#include "chimera/runtime/told.h"
#include "chimera/runtime/watch.h"
#include "chimera/runtime/watched.h"
#include "chimera/transport/lifeline.h"
#include "chimera/transport/local.h"
#include "chimera/transport/mpi.h"

namespace chimera {
namespace {

// The first error that is a rank's own; what others threw because of it tells less.
class FirstError {
 public:
  void add(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (!first_ || (first_->code() == ErrorCode::kPeer && error.code() != ErrorCode::kPeer)) {
      // A text of its own: copies of an exception share one (TSan cannot see its counter).
      first_.emplace(error.code(), error.what());
    }
  }
  [[nodiscard]] int code() const {
    const std::lock_guard lock(mutex_);
    return exit_code(first_ ? first_->code() : ErrorCode::kPeer);
  }
  // The text is that of the first abort, which is what all ranks saw.
  void rethrow(const std::string& aborted) const {
    if (first_) throw Error(first_->code(), aborted.empty() ? first_->what() : aborted);
  }

 private:
  mutable std::mutex mutex_;
  std::optional<Error> first_;
};

// What a process ends with: a launcher hands on the exit code of whichever ended first, so all end
// with that of the rank whose error it was. It travels in front of the text.
class SharedEnd {
 public:
  [[nodiscard]] static std::string with_code(int code, const std::string& why) {
    return cat(code, " ", why);
  }
  // The text alone; keeps the code. A text without one is of a rank that did not get on.
  std::string take(const std::string& told) {
    if (told.size() < 2 || told[0] < '1' || told[0] > '9' || told[1] != ' ') return told;
    code_ = told[0] - '0';
    return told.substr(2);
  }
  [[nodiscard]] int code() const { return code_; }

 private:
  std::atomic<int> code_ = exit_code(ErrorCode::kPeer);
};

// Runs a rank's part; what it throws ends the others and is kept.
void run_guarded(Transport& transport, FirstError& first, const std::function<void()>& part) {
  try {
    part();
  } catch (const Error& error) {
    first.add(error);
    transport.abort(error.what());
  } catch (const std::exception& error) {
    const std::string why = cat("rank ", transport.rank(), ": ", first_line(error.what()));
    first.add(Error(ErrorCode::kCompute, why));
    transport.abort(why);
  }
}

void run_threads(LocalWorld& world, int ranks, FirstError& first,
                 const std::function<void(int rank)>& body) {
  std::vector<std::thread> threads;
  try {
    for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(body, rank);
  } catch (const std::system_error& error) {
    const std::string why = cat("started ", threads.size(), " of ", ranks,
                                " threads, one a worker; the system allows no more (",
                                error.code().message(), "), use fewer workers");
    first.add(Error(ErrorCode::kCompute, why));
    world.abort(why);
  }
  for (std::thread& thread : threads) thread.join();
}

// ---- what watches

// Of the limit of a run: for one action and for silence, and for the end after an abort.
constexpr double kPatience = 0.8, kGrace = 0.1;

WatchLimits limits_of(const LaunchOptions& options) {
  return {kPatience * options.limit_s, options.startup_limit_s};
}

[[noreturn]] void end_process(const std::string& why) {
  report_error(why);
  ::_exit(exit_code(ErrorCode::kPeer));
}

Rank make_rank(Transport& transport, PositionBoard& board, int slot, std::string cores) {
  return {transport, [&board, slot](const Action& action) { board.begin(slot, action); }, board,
          slot, std::move(cores)};
}

std::vector<Position> read_all(const PositionBoard& board) {
  std::vector<Position> positions;
  for (int slot = 0; slot < board.size(); ++slot) positions.push_back(board.read(slot));
  return positions;
}

// The watch limits waits; the decorator compares what comes with what is expected.
std::unique_ptr<Transport> guarded(std::unique_ptr<Transport> inner, PositionBoard& board, int slot,
                                   const LaunchOptions& options) {
  if (options.harm) inner = faulty(std::move(inner), *options.harm);
  return watched(checked(std::move(inner), {.limit_s = kForever,
                                            .describe = describe_tag,
                                            .checksums = options.harm.has_value()}),
                 board, slot);
}

// ---- one of several processes

// Words between rank 0 and the others before anything watches: no wait without a limit.
std::string must_hear(Transport& transport, int from, double wait_s) {
  if (auto words = recv_text(transport, from, kAgreementTag, wait_s)) return std::move(*words);
  throw Error(ErrorCode::kTimeout,
              cat("rank ", transport.rank(), " waited ", wait_s, " s for rank ", from,
                  " (limits.startup_seconds), which has stopped or cannot be reached"));
}

// Returns on rank 0 when all others have got here: what ends the job from now on, all hear of.
void meet_rank_0(Transport& transport, double wait_s) {
  if (transport.rank() != 0) return send_text(transport, 0, kAgreementTag, "");
  for (int rank = 1; rank < transport.size(); ++rank) must_hear(transport, rank, wait_s);
}

std::unique_ptr<Lifeline> make_lifeline(Transport& transport, MpiWorld& world, SharedEnd& end,
                                        const PositionBoard& board, const LaunchOptions& options) {
  const LifelineOptions lifeline{
      .limit_s = kPatience * options.limit_s,
      .startup_s = options.startup_limit_s,
      .note = [&board] { return board.read(0).to_note(); },
      .describe = [](int rank,
                     const std::string& note) { return describe(rank, Position::from_note(note)); },
      .on_abort = [&world, &end](const std::string& told) { world.abort(end.take(told)); }};
  if (transport.rank() == 0) {
    auto hub = std::make_unique<Lifeline>(transport.size(), lifeline);
    told_by_rank_0(transport, kAgreementTag, hub->address());
    return hub;
  }
  const std::string address = must_hear(transport, 0, options.startup_limit_s);
  return std::make_unique<Lifeline>(transport.rank(), address, lifeline);
}

std::vector<Position> hear_all(const Lifeline& lifeline, const PositionBoard& own) {
  std::vector<Position> positions;
  for (const Lifeline::Heard& heard : lifeline.heard()) {
    Position position = Position::from_note(heard.note);
    if (heard.left) position.phase = RankPhase::kDone;
    positions.push_back(position);
  }
  positions[0] = own.read(0);
  return positions;
}

// With everything that knows when to end it.
void run_process(Transport& transport, MpiWorld& world, SharedEnd& end, PositionBoard& board,
                 const std::string& cores, const LaunchOptions& options,
                 const std::function<void(const Rank&)>& body) {
  FirstError first;  // told to the others while there is a lifeline
  const auto lifeline = make_lifeline(transport, world, end, board, options);
  meet_rank_0(transport, options.startup_limit_s);
  world.spread_aborts_by(
      [&](const std::string& why) { lifeline->abort(SharedEnd::with_code(first.code(), why)); });
  WatchOptions watch{.limits = limits_of(options),
                     .grace_s = kGrace * options.limit_s,
                     .on_stall = [&](const std::string& why) { lifeline->abort(why); },
                     .aborted = [&] { return world.aborted(); },
                     .hard_exit = end_process};
  if (transport.rank() == 0) watch.look = [&] { return hear_all(*lifeline, board); };
  const Watch watching(std::move(watch));
  struct Unspread {
    MpiWorld& world;
    ~Unspread() { world.spread_aborts_by({}); }
  } const before_the_lifeline_goes{world};
  run_guarded(transport, first, [&] { body(make_rank(transport, board, 0, cores)); });
  board.enter(0, RankPhase::kDone);
  // The text may have come over MPI; with the lifeline's comes the code.
  if (!world.aborted().empty()) static_cast<void>(lifeline->leave());
  first.rethrow(world.aborted());
  if (!lifeline->leave()) throw Error(ErrorCode::kPeer, world.aborted());
}

}  // namespace

void launch_local(int ranks, const CheckedOptions& options,
                  const std::function<void(Transport&)>& body) {
  LocalWorld world(ranks);
  FirstError first;
  run_threads(world, ranks, first, [&](int rank) {
    const auto transport = checked(world.transport(rank), options);
    run_guarded(*transport, first, [&] { body(*transport); });
  });
  first.rethrow(world.aborted());
}

void launch_threads(int ranks, const LaunchOptions& options,
                    const std::function<void(const Rank&)>& body) {
  LocalWorld world(ranks);
  PositionBoard board(ranks);
  const Watch watching({.limits = limits_of(options),
                        .grace_s = kGrace * options.limit_s,
                        .look = [&] { return read_all(board); },
                        .on_stall = [&](const std::string& why) { world.abort(why); },
                        .aborted = [&] { return world.aborted(); },
                        .hard_exit = end_process});
  FirstError first;
  run_threads(world, ranks, first, [&](int rank) {
    const auto transport = guarded(world.transport(rank), board, rank, options);
    run_guarded(*transport, first, [&] { body(make_rank(*transport, board, rank, "")); });
    board.enter(rank, RankPhase::kDone);
  });
  first.rethrow(world.aborted());
}

void launch_process(const LaunchOptions& options, const std::function<void(const Rank&)>& body) {
  MpiProcess process(options.startup_limit_s);
  // Before threads are made and memory is touched.
  const std::string cores =
      options.bind ? bind_to_share(process.local_rank(), process.local_size()) : "not bound";
  MpiWorld world(process);
  PositionBoard board(1);
  const auto transport = guarded(world.transport(), board, 0, options);
  FirstError first;
  SharedEnd end;
  run_guarded(*transport, first,
              [&] { run_process(*transport, world, end, board, cores, options, body); });
  try {
    first.rethrow(world.aborted());
  } catch (const Error& error) {
    std::cout.flush();
    report_error(error.what());
    throw Reported{error.code() == ErrorCode::kPeer ? end.code() : exit_code(error.code())};
  }
}

}  // namespace chimera
