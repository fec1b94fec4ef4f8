// One loop serves both ends: rank 0 has a line to every other rank, the others have one to rank 0.
// A line belongs to a rank once it has said hello with the job's secret. Only the loop's thread
// touches lines; what other threads ask for or look at is under the mutex.
// Tested by lifeline_test.cc.
#include "chimera/transport/lifeline.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdio>
#include <list>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

#include "chimera/base/check.h"
#include "chimera/base/clock.h"
#include "chimera/base/error.h"
#include "chimera/base/host.h"
#include "chimera/base/number.h"
#include "chimera/base/text.h"
#include "chimera/transport/frames.h"
#include "chimera/transport/socket.h"

namespace chimera {
namespace {

constexpr double kStranger_s = 10;  // for a hello
constexpr double kFlush_s = 1;      // for the last words
constexpr double kTry_s = 2;        // for one address

// Often enough that a note is fresh, seldom enough that two thousand ranks cost rank 0 little.
double beat_of(double limit_s) { return std::clamp(limit_s / 100, 0.02, 0.5); }

std::string new_secret() {
  std::random_device random;
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%08x%08x%08x%08x", random(), random(), random(),
                random());
  return text.data();
}

// One connection a rank, and the limit of a shell is often 1024.
void allow_descriptors(int ranks) {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const auto wanted = static_cast<rlim_t>(ranks) + 256;
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

class Lifeline::Thread {
 public:
  Thread(int rank, int ranks, LifelineOptions options)
      : rank_(rank),
        options_(std::move(options)),
        wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
        began_s_(now_s()),
        known_(static_cast<std::size_t>(ranks)) {
    if (!wake_.is_open()) throw Error(ErrorCode::kIo, "cannot make an eventfd: too many files?");
  }

  ~Thread() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake();
    if (thread_.joinable()) thread_.join();
  }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  void listen() {
    allow_descriptors(static_cast<int>(known_.size()));
    secret_ = new_secret();
    listener_ = listen_anywhere(port_);
    thread_ = std::thread([this] { serve(); });
  }

  void connect(const std::string& address);

  [[nodiscard]] std::string address() const {
    return cat(secret_, " ", port_, " ", join(own_addresses(), " "));
  }

  [[nodiscard]] std::vector<Heard> heard() const {
    const std::lock_guard lock(mutex_);
    const double now = now_s();
    std::vector<Heard> all;
    for (const Known& known : known_) {
      all.push_back({known.connected, known.left, known.note, now - known.heard_s});
    }
    return all;
  }

  void abort(const std::string& why) noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (!wish_) wish_ = why;
    }
    wake();
  }

  bool leave() {
    std::unique_lock lock(mutex_);
    leaving_ = true;
    wake();
    changed_.wait(lock, [this] { return all_left_ || told_; });
    return all_left_;
  }

 private:
  // What rank 0 knows of a rank; of the others only their line's part is used.
  struct Known {
    bool connected = false;
    bool left = false;
    std::string note = {};
    std::string who = {};  // "process 123 on host a"
    double heard_s = 0;
  };
  struct Line {
    Socket socket;
    int rank = -1;  // of the other side; -1: a stranger
    double opened_s = 0, heard_s = 0;
    std::string in = {}, out = {};
    bool broken = false;
    bool joined = false;  // said more than hello: one that gave up before is no loss
  };

  [[nodiscard]] bool is_hub() const { return rank_ == 0; }
  void wake() {
    const std::uint64_t one = 1;
    static_cast<void>(::write(wake_.descriptor(), &one, sizeof one));
  }

  void serve();
  void wait_for_something(double until_s);
  void move_bytes(const std::vector<pollfd>& polled);
  void take_frames(Line& line);
  void take(Line& line, Frame frame);
  void take_hello(Line& line, const std::string& text);
  void take_note(const Line& line, std::string note);
  void take_leave(int rank);
  void take_wishes();
  void beat();
  void drop_broken_lines();
  void look_for_silence();
  void forgive_silence();
  void lose(int rank);
  void end(const std::string& why);
  void tell_all(FrameKind kind, const std::string& text);
  void leave_if_all_left();
  void flush();
  [[nodiscard]] bool is_welcome(Line& line);
  [[nodiscard]] std::string portrait(int rank) const;

  const int rank_;
  const LifelineOptions options_;
  Socket wake_;
  const double began_s_;
  std::string secret_ = {};
  std::uint16_t port_ = 0;
  Socket listener_ = {};  // rank 0's
  std::list<Line> lines_ = {};
  bool told_leave_ = false;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Known> known_;              // by rank
  std::optional<std::string> wish_ = {};  // to abort
  bool leaving_ = false, all_left_ = false;
  bool ended_ = false, told_ = false;  // by an abort; and on_abort has returned
  std::string why_ = {};
  bool stop_ = false;
  std::thread thread_;
};

// ---- the loop

void Lifeline::Thread::serve() {
  double next_beat_s = 0, last_round_s = now_s();
  for (;;) {
    take_wishes();
    // This whole process was stopped, and perhaps the job: nobody was silent.
    if (now_s() - last_round_s > std::max(1.0, options_.limit_s / 4)) forgive_silence();
    last_round_s = now_s();
    if (now_s() >= next_beat_s) {
      beat();
      next_beat_s = now_s() + beat_of(options_.limit_s);
    }
    {
      const std::lock_guard lock(mutex_);
      if (stop_) break;
    }
    wait_for_something(next_beat_s);
    drop_broken_lines();
    look_for_silence();  // after what has come was read: this process may have been stopped itself
  }
  flush();
}

void Lifeline::Thread::wait_for_something(double until_s) {
  std::vector<pollfd> polled = {{wake_.descriptor(), POLLIN, 0}};
  if (is_hub()) polled.push_back({listener_.descriptor(), POLLIN, 0});
  for (const Line& line : lines_) {
    const bool writes = !line.out.empty();
    polled.push_back(
        {line.socket.descriptor(), static_cast<short>(POLLIN | (writes ? POLLOUT : 0)), 0});
  }
  const double wait_s = std::max(0.0, until_s - now_s());
  ::poll(polled.data(), polled.size(), static_cast<int>(wait_s * 1000) + 1);
  std::uint64_t count = 0;
  static_cast<void>(::read(wake_.descriptor(), &count, sizeof count));
  move_bytes(polled);
}

void Lifeline::Thread::move_bytes(const std::vector<pollfd>& polled) {
  const std::size_t first = is_hub() ? 2 : 1;
  std::size_t i = first;
  for (Line& line : lines_) {
    const short events = polled[i++].revents;
    if ((events & (POLLIN | POLLHUP | POLLERR)) != 0) {
      line.broken = !line.socket.read_into(line.in);
      take_frames(line);
    }
    if (!line.socket.write_from(line.out)) line.broken = true;
  }
  if (!is_hub() || (polled[1].revents & POLLIN) == 0) return;
  for (Socket socket = accept_from(listener_); socket.is_open(); socket = accept_from(listener_)) {
    lines_.push_back({.socket = std::move(socket), .opened_s = now_s(), .heard_s = now_s()});
  }
}

void Lifeline::Thread::take_frames(Line& line) {
  bool bad = false;
  while (auto frame = take_frame(line.in, bad)) {
    line.heard_s = now_s();
    take(line, std::move(*frame));
  }
  if (bad) line.broken = true;
}

void Lifeline::Thread::take(Line& line, Frame frame) {
  if (line.rank < 0) {
    if (frame.kind == FrameKind::kHello) {
      take_hello(line, frame.text);
    } else {
      line.broken = true;
    }
    return;
  }
  line.joined = true;
  switch (frame.kind) {
    case FrameKind::kHello:
    case FrameKind::kWelcome:
      line.broken = true;
      break;
    case FrameKind::kBeat:
      take_note(line, std::move(frame.text));
      break;
    case FrameKind::kAbort:
      end(frame.text);
      break;
    case FrameKind::kLeave:
      take_leave(line.rank);
      break;
    case FrameKind::kAllLeft: {
      const std::lock_guard lock(mutex_);
      all_left_ = true;
      changed_.notify_all();
      break;
    }
  }
}

// "secret rank process host"
void Lifeline::Thread::take_hello(Line& line, const std::string& text) {
  const std::vector<std::string_view> words = split(text, ' ');
  const auto rank = words.size() == 4 ? parse_number<int>(words[1]) : std::nullopt;
  const std::lock_guard lock(mutex_);
  if (!rank || words[0] != secret_ || *rank < 1 || *rank >= std::ssize(known_) ||
      known_[static_cast<std::size_t>(*rank)].connected) {
    line.broken = true;
    return;
  }
  line.rank = *rank;
  Known& known = known_[static_cast<std::size_t>(*rank)];
  known.who = cat("process ", words[2], " on host ", words[3]);
  append_frame(line.out, FrameKind::kWelcome,
               cat("process ", ::getpid(), " on host ", host_name()));
  if (ended_) append_frame(line.out, FrameKind::kAbort, why_);
}

void Lifeline::Thread::take_note(const Line& line, std::string note) {
  const std::lock_guard lock(mutex_);
  Known& known = known_[is_hub() ? static_cast<std::size_t>(line.rank) : 0];
  known.connected = true;
  known.heard_s = now_s();
  known.note = std::move(note);
}

void Lifeline::Thread::take_leave(int rank) {
  {
    const std::lock_guard lock(mutex_);
    known_[static_cast<std::size_t>(rank)].left = true;
  }
  leave_if_all_left();
}

// On rank 0.
void Lifeline::Thread::leave_if_all_left() {
  {
    const std::lock_guard lock(mutex_);
    if (all_left_ || ended_ ||
        !std::all_of(known_.begin(), known_.end(), [](const Known& k) { return k.left; })) {
      return;
    }
    all_left_ = true;
  }
  tell_all(FrameKind::kAllLeft, "");
  changed_.notify_all();
}

void Lifeline::Thread::take_wishes() {
  std::optional<std::string> wish;
  bool leaves = false;
  {
    const std::lock_guard lock(mutex_);
    wish = std::exchange(wish_, {});
    leaves = leaving_ && !std::exchange(told_leave_, leaving_);
  }
  if (wish && is_hub()) end(*wish);
  if (wish && !is_hub()) tell_all(FrameKind::kAbort, *wish);  // rank 0 decides
  if (leaves && is_hub()) take_leave(0);
  if (leaves && !is_hub()) tell_all(FrameKind::kLeave, "");
}

void Lifeline::Thread::beat() { tell_all(FrameKind::kBeat, options_.note ? options_.note() : ""); }

// ---- losses

void Lifeline::Thread::drop_broken_lines() {
  std::vector<int> lost;
  lines_.remove_if([&](Line& line) {
    const bool stranger = line.rank < 0 && now_s() - line.opened_s > kStranger_s;
    if (!line.broken && !stranger) return false;
    if (line.joined) lost.push_back(line.rank);
    return true;
  });
  for (const int rank : lost) lose(rank);
}

// "rank 3 (process 12 on host a), last heard of 0.02 s before at ..."
std::string Lifeline::Thread::portrait(int rank) const {
  const Known& known = known_[static_cast<std::size_t>(rank)];
  std::string text = cat("rank ", rank, " (", known.who, ")");
  if (options_.describe && !known.note.empty()) {
    text += cat(", heard of ", seconds_text(now_s() - known.heard_s),
                " ago: ", options_.describe(rank, known.note), ",");
  }
  return text;
}

void Lifeline::Thread::lose(int rank) {
  std::string why;
  {
    const std::lock_guard lock(mutex_);
    if (all_left_ || ended_ || (is_hub() && known_[static_cast<std::size_t>(rank)].left)) return;
    why = cat(portrait(rank),
              " ended without a word: it was killed, or its machine was (out of memory?); look at "
              "that machine's log");
  }
  end(why);
}

void Lifeline::Thread::forgive_silence() {
  const std::lock_guard lock(mutex_);
  for (Known& known : known_) known.heard_s = now_s();
}

void Lifeline::Thread::look_for_silence() {
  const double now = now_s();
  std::string why;
  {
    const std::lock_guard lock(mutex_);
    if (all_left_ || ended_) return;
    const auto silent = [&](int rank, double silence_s, double limit_s) {
      if (!why.empty() || silence_s <= limit_s) return;
      why = cat(portrait(rank), " has given no sign of life for ", seconds_text(silence_s),
                ", the limit is ", seconds_text(limit_s),
                " (limits.seconds): its process is stopped, or its machine or the network to it "
                "is gone");
    };
    // The others give rank 0 a chance to decide first.
    if (!is_hub()) silent(0, now - known_[0].heard_s, 1.25 * options_.limit_s);
    for (int rank = 1; is_hub() && rank < std::ssize(known_); ++rank) {
      const Known& known = known_[static_cast<std::size_t>(rank)];
      if (known.left) continue;
      if (known.connected) silent(rank, now - known.heard_s, options_.limit_s);
      if (known.connected || now - began_s_ <= options_.startup_s) continue;
      why = cat("rank ", rank, " has not reached rank 0 on host ", host_name(), " for ",
                seconds_text(now - began_s_), ", the limit (limits.startup_seconds)");
    }
  }
  if (!why.empty()) end(why);
}

// The first text holds: rank 0's is what it tells all, the others' is what it tells them, or, where
// it is gone, their own.
void Lifeline::Thread::end(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (ended_ || all_left_) return;
    ended_ = true;
    why_ = why;
  }
  // Rank 0 decides for all; what another found out by itself, rank 0 may read when it goes on
  // again.
  tell_all(FrameKind::kAbort, why);
  if (options_.on_abort) options_.on_abort(why);
  {
    const std::lock_guard lock(mutex_);
    told_ = true;
  }
  changed_.notify_all();
}

void Lifeline::Thread::tell_all(FrameKind kind, const std::string& text) {
  for (Line& line : lines_) {
    if (line.rank < 0) continue;
    append_frame(line.out, kind, text);
    if (!line.socket.write_from(line.out)) line.broken = true;
  }
}

// What is under way still goes out, if the others take it.
void Lifeline::Thread::flush() {
  const double end_s = now_s() + kFlush_s;
  for (Line& line : lines_) {
    while (!line.out.empty() && !line.broken && now_s() < end_s) {
      pollfd waiting = {line.socket.descriptor(), POLLOUT, 0};
      ::poll(&waiting, 1, static_cast<int>(kFlush_s * 1000));
      line.broken = !line.socket.write_from(line.out);
    }
  }
}

// ---- the other ranks' end

// Whether rank 0 is at the other end, and not someone else.
bool Lifeline::Thread::is_welcome(Line& line) {
  const double end_s = now_s() + kTry_s;
  bool bad = false;
  while (!bad && now_s() < end_s) {
    if (!line.socket.write_from(line.out)) return false;
    const auto events = static_cast<short>(POLLIN | (line.out.empty() ? 0 : POLLOUT));
    pollfd waiting = {line.socket.descriptor(), events, 0};
    ::poll(&waiting, 1, 100);
    const bool open = line.socket.read_into(line.in);
    if (const auto frame = take_frame(line.in, bad)) {
      known_[0].who = frame->text;
      return frame->kind == FrameKind::kWelcome;
    }
    if (!open) return false;
  }
  return false;
}

void Lifeline::Thread::connect(const std::string& address) {
  const std::vector<std::string_view> words = split(address, ' ');
  const auto port = words.size() > 2 ? parse_number<std::uint16_t>(words[1]) : std::nullopt;
  CHECK(port.has_value());
  // Nearest first would be best, but which one that is, is known by trying.
  for (std::size_t i = 2; i < words.size(); ++i) {
    Socket socket = connect_to(std::string(words[i]), *port, kTry_s);
    if (!socket.is_open()) continue;
    const double now = now_s();
    Line line{.socket = std::move(socket), .rank = 0, .opened_s = now, .heard_s = now};
    append_frame(line.out, FrameKind::kHello,
                 cat(words[0], " ", rank_, " ", ::getpid(), " ", host_name()));
    if (!is_welcome(line)) continue;  // machines may have addresses that others have too
    line.joined = true;
    lines_.push_back(std::move(line));
    known_[0].heard_s = now;
    thread_ = std::thread([this] { serve(); });
    return;
  }
  throw Error(ErrorCode::kPeer,
              cat("rank ", rank_, " on host ", host_name(), " cannot reach rank 0 at port ", *port,
                  " of ", join(std::vector(words.begin() + 2, words.end())),
                  "; the machines must be able to connect to each other by TCP"));
}

// ---- Lifeline

Lifeline::Lifeline(int ranks, LifelineOptions options)
    : thread_(std::make_unique<Thread>(0, ranks, std::move(options))) {
  thread_->listen();
}

Lifeline::Lifeline(int rank, const std::string& address, LifelineOptions options)
    : thread_(std::make_unique<Thread>(rank, 1, std::move(options))) {
  CHECK(rank > 0);
  thread_->connect(address);
}

Lifeline::~Lifeline() = default;

std::string Lifeline::address() const { return thread_->address(); }
std::vector<Lifeline::Heard> Lifeline::heard() const { return thread_->heard(); }
void Lifeline::abort(const std::string& why) noexcept { thread_->abort(why); }
bool Lifeline::leave() { return thread_->leave(); }

}  // namespace chimera
