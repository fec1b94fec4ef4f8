// Ranks are threads here where they behave, and processes where they are killed or stopped: this
// program starts itself again as such a rank (LifelineChild).
#include "chimera/transport/lifeline.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>

#include "chimera/base/clock.h"
#include "chimera/base/error.h"
#include "chimera/base/host.h"
#include "chimera/base/text.h"
#include "chimera/transport/frames.h"
#include "chimera/transport/socket.h"

namespace chimera {
namespace {

constexpr double kPatience_s = 30;

// The text that on_abort brings, for a thread to wait for.
class Ending {
 public:
  void set(const std::string& why) {
    const std::lock_guard lock(mutex_);
    why_ = why;
    ++calls_;
    came_.notify_all();
  }
  std::string wait() {
    std::unique_lock lock(mutex_);
    const auto patience = std::chrono::duration<double>(kPatience_s);
    EXPECT_TRUE(came_.wait_for(lock, patience, [this] { return calls_ > 0; }));
    EXPECT_EQ(calls_, 1);
    return why_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::string why_;
  int calls_ = 0;
};

// A job whose ranks 0 .. threads - 1 are in this process.
struct Job {
  Job(int threads, int ranks, double limit_s = 20) : endings(static_cast<std::size_t>(threads)) {
    for (int rank = 0; rank < threads; ++rank) {
      LifelineOptions options{.limit_s = limit_s};
      options.note = [rank] { return cat("note of ", rank); };
      options.describe = [](int, const std::string& note) { return "at " + note; };
      options.on_abort = [this, rank](const std::string& why) {
        endings[static_cast<std::size_t>(rank)].set(why);
      };
      lines.push_back(rank == 0 ? std::make_unique<Lifeline>(ranks, options)
                                : std::make_unique<Lifeline>(rank, lines[0]->address(), options));
    }
  }

  [[nodiscard]] bool is_connected(int rank) const {
    return lines[0]->heard()[static_cast<std::size_t>(rank)].connected;
  }
  void wait_for(int rank) const {
    const double end_s = now_s() + kPatience_s;
    while (!is_connected(rank) && now_s() < end_s) std::this_thread::yield();
    ASSERT_TRUE(is_connected(rank));
  }
  // The same on all.
  std::string ending() {
    const std::string why = endings[0].wait();
    for (Ending& other : endings) EXPECT_EQ(other.wait(), why);
    return why;
  }

  std::vector<Ending> endings;
  std::vector<std::unique_ptr<Lifeline>> lines;
};

// A rank that is a process of its own, and does nothing but live.
class Child {
 public:
  Child(int rank, const std::string& address, double limit_s = 20) {
    ::setenv("CHIMERA_LIFELINE_CHILD", cat(rank, ";", limit_s, ";", address).c_str(), 1);
    std::string program = "/proc/self/exe", filter = "--gtest_filter=LifelineChild.Lives";
    std::string brief = "--gtest_brief=1";
    char* arguments[] = {program.data(), filter.data(), brief.data(), nullptr};
    EXPECT_EQ(::posix_spawn(&process_, program.c_str(), nullptr, nullptr, arguments, environ), 0);
    ::unsetenv("CHIMERA_LIFELINE_CHILD");
  }
  ~Child() {
    signal(SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  void signal(int number) const { ::kill(process_, number); }
  [[nodiscard]] pid_t process() const { return process_; }

 private:
  pid_t process_ = 0;
};

TEST(LifelineChild, Lives) {
  const char* told = std::getenv("CHIMERA_LIFELINE_CHILD");
  if (told == nullptr) GTEST_SKIP() << "a part of other tests";
  const std::string text = told;
  const auto words = split(text, ';');
  LifelineOptions options{.limit_s = std::atof(std::string(words[1]).c_str())};
  options.note = [] { return std::string("stage 2"); };
  options.on_abort = [](const std::string&) { ::_exit(4); };
  Lifeline line(std::atoi(std::string(words[0]).c_str()), std::string(words[2]), options);
  for (;;) ::pause();
}

TEST(Lifeline, LetsAllLeaveInAnyOrder) {
  Job job(5, 5);
  std::vector<std::thread> threads;
  for (const int rank : {3, 0, 4, 1, 2}) {
    threads.emplace_back(
        [&, rank] { EXPECT_TRUE(job.lines[static_cast<std::size_t>(rank)]->leave()); });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Lifeline, IsNothingForOneRank) {
  Job job(1, 1);
  EXPECT_TRUE(job.lines[0]->leave());
}

TEST(Lifeline, BringsNotes) {
  Job job(3, 3);
  const double end_s = now_s() + kPatience_s;
  while (job.lines[0]->heard()[2].note.empty() && now_s() < end_s) std::this_thread::yield();
  EXPECT_EQ(job.lines[0]->heard()[2].note, "note of 2");
}

TEST(Lifeline, TellsAllOfAnAbortByAnyRank) {
  for (int rank = 0; rank < 3; ++rank) {
    Job job(3, 3);
    for (int other = 1; other < 3; ++other) job.wait_for(other);
    job.lines[static_cast<std::size_t>(rank)]->abort(cat("by ", rank));
    EXPECT_EQ(job.ending(), cat("by ", rank));
    for (auto& line : job.lines) EXPECT_FALSE(line->leave());
  }
}

TEST(Lifeline, SettlesOnOneTextOfSeveral) {
  for (int round = 0; round < 20; ++round) {
    Job job(4, 4);
    for (int other = 1; other < 4; ++other) job.wait_for(other);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 4; ++rank) {
      threads.emplace_back(
          [&, rank] { job.lines[static_cast<std::size_t>(rank)]->abort(cat("by ", rank)); });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(job.ending().substr(0, 3), "by ");
  }
}

TEST(Lifeline, NamesARankThatWasKilled) {
  Job job(2, 3);
  const Child child(2, job.lines[0]->address());
  job.wait_for(2);
  while (job.lines[0]->heard()[2].note.empty()) std::this_thread::yield();
  child.signal(SIGKILL);
  const std::string why = job.ending();
  EXPECT_NE(why.find(cat("rank 2 (process ", child.process(), " on host ", host_name(), ")")),
            std::string::npos)
      << why;
  EXPECT_NE(why.find("at stage 2"), std::string::npos) << why;
  EXPECT_NE(why.find("ended without a word"), std::string::npos) << why;
}

TEST(Lifeline, NamesARankThatIsStopped) {
  constexpr double kLimit_s = 1;
  Job job(2, 3, kLimit_s);
  const Child child(2, job.lines[0]->address(), kLimit_s);
  job.wait_for(2);
  child.signal(SIGSTOP);
  const std::string why = job.ending();
  EXPECT_NE(why.find("rank 2 (process "), std::string::npos) << why;
  EXPECT_NE(why.find("no sign of life for 1.0"), std::string::npos) << why;
}

TEST(Lifeline, TellsTheOthersThatRank0Died) {
  Job job(2, 2);
  job.wait_for(1);
  job.lines[0].reset();
  const std::string why = job.endings[1].wait();
  EXPECT_EQ(why.find("rank 0 (process "), 0U) << why;
  EXPECT_NE(why.find("ended without a word"), std::string::npos) << why;
}

TEST(Lifeline, ARankThatGoesWithoutLeavingIsMissed) {
  Job job(3, 3);
  job.wait_for(1);
  job.wait_for(2);
  job.lines[1].reset();
  EXPECT_NE(job.endings[0].wait().find("rank 1 (process "), std::string::npos);
  EXPECT_EQ(job.endings[0].wait(), job.endings[2].wait());
}

TEST(Lifeline, DropsStrangers) {
  Job job(2, 2);
  job.wait_for(1);
  const std::string address = job.lines[0]->address();
  const auto words = split(address, ' ');
  const auto port = static_cast<std::uint16_t>(std::atoi(std::string(words[1]).c_str()));
  const auto frame = [](FrameKind kind, const std::string& text) {
    std::string out;
    append_frame(out, kind, text);
    return out;
  };
  std::string long_frame = frame(FrameKind::kHello, "");
  long_frame[4] = '\x7F';
  for (std::string text :
       {std::string("GET / HTTP/1.1\r\n\r\n"), long_frame, frame(FrameKind::kHello, "wrong 1 2 h"),
        frame(FrameKind::kHello, cat(words[0], " 1 2 h")),  // is here already
        frame(FrameKind::kBeat, "")}) {
    Socket stranger = connect_to("127.0.0.1", port, 5);
    ASSERT_TRUE(stranger.is_open());
    EXPECT_TRUE(stranger.write_from(text));
    std::string answer;
    const double end_s = now_s() + kPatience_s;
    while (stranger.read_into(answer) && now_s() < end_s) std::this_thread::yield();
    EXPECT_LT(now_s(), end_s);  // closed
    EXPECT_EQ(answer, "");
  }
  const Socket silent = connect_to("127.0.0.1", port, 5);
  std::thread other([&] { EXPECT_TRUE(job.lines[1]->leave()); });
  EXPECT_TRUE(job.lines[0]->leave());
  other.join();
}

TEST(Lifeline, SaysWhereNobodyAnswers) {
  std::string address;
  {
    const Job job(1, 2);
    address = job.lines[0]->address();
  }
  try {
    const Lifeline line(1, address, {});
    ADD_FAILURE() << "connected to nobody";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kPeer);
    EXPECT_EQ(std::string(error.what()).find("rank 1 on host "), 0U) << error.what();
  }
}

}  // namespace
}  // namespace chimera
