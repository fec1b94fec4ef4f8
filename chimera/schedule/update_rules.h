// What one worker may do to the weights of its stages, action by action: the part of verify's pass
// over a row that knows reductions, versions and steps (updates.h says what is meant).
#pragma once

#include <set>
#include <vector>

#include "chimera/schedule/findings.h"

namespace chimera {

class UpdateRules {
 public:
  // For a row of `worker`. Keeps references.
  UpdateRules(const Schedule& schedule, std::size_t worker, bool stepped, Findings& findings);

  // A reduction, stash, free or step.
  void update(const Place& at);
  // A gradient of micro-batches of a stage that the worker holds, or does not.
  void contribution(const Place& at);
  // The version that a computation reads. Reports one that is not there.
  [[nodiscard]] int version(const Place& at);
  // After the row, at its end.
  void end(const Place& at);

  // Whether the step of all stages was: nothing may follow.
  [[nodiscard]] bool done() const { return done_; }

  // Most versions of stages at a time: those it holds, and the older ones kept.
  [[nodiscard]] int peak_versions() const { return peak_versions_; }
  // The last micro-batch of each step of a stage that the worker holds.
  struct Steps {
    int stage;
    std::vector<int> micros;
  };
  [[nodiscard]] std::vector<Steps> steps() const;

 private:
  struct Weights {
    int stage = 0;
    std::set<int> kept = {};      // versions older than the newest
    std::vector<int> steps = {};  // the last micro-batch of each
    int pending = -1;             // the last micro-batch whose gradient waits for a step
    bool begun = false, waited = false;

    [[nodiscard]] int newest() const { return static_cast<int>(steps.size()); }
  };

  [[nodiscard]] Weights* find(int stage);
  void reduce(const Place& at, Weights& weights);
  void stash(const Place& at, Weights& weights);
  void free(const Place& at, Weights& weights);
  void step(const Place& at, Weights& weights);
  void check_reduced(const Place& at, const Weights& weights);
  void check_end(const Place& at, const Weights& weights);
  void count_versions();

  Findings& findings_;
  bool stepped_;                  // the schedule says its steps
  bool done_ = false;             // the step of all stages was
  std::vector<Weights> weights_;  // of each stage held
  int peak_versions_ = 0;
};

}  // namespace chimera
