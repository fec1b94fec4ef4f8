// The time of one rank whose work is emulated: ranks that wait instead of computing, many of them
// on few cores.
//
// What such a rank measures should be what it would be with a core of its own. So its own time is
// not the machine's: a wait ends, in the rank's time, exactly when it should; after that its time
// goes on as far as its thread has used a processor. What the runtime and the transport compute
// between waits is thus counted in full, and adds up; that a timer is late, that a thread is woken
// late, or that other ranks have the cores is not, as long as it is caught up: the next wait is
// shorter by as much. The rank's time is never ahead of the machine's, and what is not caught up
// (more ranks than the cores can bear) shows in whatever is measured with the machine's clock. What
// it costs to wake a thread for a message is not counted either: on a real machine it is part of
// the link's latency.
#pragma once

namespace chimera {

class RankClock {
 public:
  virtual ~RankClock() = default;

  // Seconds; those of the ranks of one process can be compared.
  [[nodiscard]] virtual double now_s() = 0;

  // Returns when the rank's time has come to `time_s`; at once if it is past it.
  virtual void wait_until(double time_s) = 0;
};

// As above. Made and used by the rank's thread alone.
class PacedClock final : public RankClock {
 public:
  PacedClock();

  double now_s() override;
  void wait_until(double time_s) override;

  // How far the rank's time is behind the machine's.
  [[nodiscard]] double lag_s();

 private:
  void set(double time_s);

  double set_s_ = 0;   // the rank's time when it was last set
  double used_s_ = 0;  // of a processor, until then
};

// Sleeps until the steady clock (clock.h) has come to `time_s`, and some 50 us more: the timer is
// as fine as the system has it.
void sleep_until(double time_s);

}  // namespace chimera
