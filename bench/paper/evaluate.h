// What the simulator says of one measured point of the paper: a schedule, how it is laid over a
// machine, and a profile of the model. Pure functions.
#pragma once

#include <string>

#include "chimera/generate/generate.h"
#include "chimera/plan/layout.h"
#include "chimera/plan/machine.h"
#include "chimera/plan/profile.h"
#include "chimera/schedule/schedule.h"

namespace chimera {

struct PaperRun {
  std::string schedule;  // of the table of generate.h
  int width = 1;         // W
  int stages = 1;        // D
  int pipes = 1;         // of Chimera: 2f
  Method method = Method::kDirect;
  int sequences = 1;       // B, of a forward; halving's backwards take half as many
  int micros = 1;          // N, of one group in a step, each of B sequences
  bool recompute = false;  // of all stages

  [[nodiscard]] int batch() const { return width * sequences * micros; }  // of a step
};

// Stages of equal numbers of blocks. Throws Error (kUsage) where the blocks cannot be cut so.
[[nodiscard]] Layout layout_of(const PaperRun& run, const Profile& profile);

// Lowered; of so many steps, where the schedule is asynchronous.
[[nodiscard]] Program program_of(const PaperRun& run, int steps = 1);

// Seconds of a step among others: a synchronous one overlaps the start of the next one with its
// all-reduce (the paper's region c), an asynchronous one never drains.
[[nodiscard]] double step_seconds(const PaperRun& run, const Profile& profile,
                                  const Machine& machine);

// Sequences per second.
[[nodiscard]] double throughput(const PaperRun& run, const Profile& profile,
                                const Machine& machine);

// By equation 1 instead; of a synchronous schedule.
[[nodiscard]] double equation_throughput(const PaperRun& run, const Profile& profile,
                                         const Machine& machine);

// Bytes that the fullest and the emptiest worker need, with what the machine reserves.
struct Peaks {
  double most = 0, least = 0;
};
[[nodiscard]] Peaks peaks(const PaperRun& run, const Profile& profile, const Machine& machine);

// As the paper counts it, for equal stages with backwards as long as forwards and nothing else that
// costs; 0 for an asynchronous schedule.
[[nodiscard]] double equal_bubble_ratio(const PaperRun& run);

}  // namespace chimera
