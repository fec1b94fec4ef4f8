// Lifeline: how ranks in different processes know that the others live, and why they do not.
//
// A TCP connection from every rank to rank 0, and at each end a thread that does nothing else. A
// process that dies, however it dies, closes its connection, and all know at once; one that is
// stopped, or whose machine is gone, misses its beats. Either ends the job with one text on every
// rank, as abort() does: rank 0 decides which text that is. It knows no MPI (which tells nobody
// that a process died) and nothing of what ranks do, but carries a note of each to rank 0.
// What comes from strangers is dropped. Why it is so: docs/decisions/0014-lifeline-and-watch.md.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace chimera {

struct LifelineOptions {
  double limit_s = 30;     // of silence
  double startup_s = 300;  // until all are connected
  // What this rank is at; asked before each beat, by the lifeline's thread.
  std::function<std::string()> note = {};
  // A note in words, for the text about its rank.
  std::function<std::string(int rank, const std::string& note)> describe = {};
  // Called once, by the lifeline's thread, with the text that ends the job.
  std::function<void(const std::string& why)> on_abort = {};
};

class Lifeline {
 public:
  // What rank 0 knows of a rank.
  struct Heard {
    bool connected = false;
    bool left = false;
    std::string note;
    double age_s = 0;  // of the note
  };

  // Rank 0's end. Throws Error (kIo).
  Lifeline(int ranks, LifelineOptions options);
  // Another rank's, to rank 0 at `address`. Throws Error (kPeer) if nobody answers there.
  Lifeline(int rank, const std::string& address, LifelineOptions options);
  // A rank that has not left is taken for dead by the others, unless the job was aborted.
  ~Lifeline();
  Lifeline(const Lifeline&) = delete;
  Lifeline& operator=(const Lifeline&) = delete;

  // On rank 0: what the others connect to, in one line, with a secret of this job.
  [[nodiscard]] std::string address() const;

  // On rank 0: by rank. From any thread.
  [[nodiscard]] std::vector<Heard> heard() const;

  // Returns at once; on_abort follows soon. From any thread.
  void abort(const std::string& why) noexcept;

  // The good end: returns when all ranks are here, true; or when the job was aborted, false.
  [[nodiscard]] bool leave();

 private:
  class Thread;
  std::unique_ptr<Thread> thread_;
};

}  // namespace chimera
