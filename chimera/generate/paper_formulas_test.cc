// Table 2 and sections 3.4 to 3.6 of the paper (Li and Hoefler, arXiv 2107.06925) as tests: time,
// bubbles, weights and activations of every schedule. F and B are the times of a forward and a
// backward of one micro-batch, D stages, N micro-batches, f pairs of pipes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "chimera/generate/testing.h"
#include "chimera/schedule/recompute.h"

namespace chimera {
namespace {

constexpr int kMaxDepth = 32;  // D up to this, N up to 4D

std::vector<int> all_workers(int workers, int value) {
  return std::vector<int>(static_cast<std::size_t>(workers), value);
}

std::vector<int> descending(int stages, int most) {
  std::vector<int> values = all_workers(stages, most);
  for (int stage = 0; stage < stages; ++stage) {
    int& value = values[static_cast<std::size_t>(stage)];
    value = std::min(value, stages - stage);
  }
  return values;
}

// Calls visit(D, N): for every N where D is small, else for those around which formulas change.
// With CHIMERA_EXHAUSTIVE=1 in the environment for every N; that takes a minute.
template <class Visit>
void for_all_sizes(Visit visit) {
  const int exhaustive = std::getenv("CHIMERA_EXHAUSTIVE") != nullptr ? kMaxDepth : 12;
  for (int d = 1; d <= kMaxDepth; ++d) {
    if (d <= exhaustive) {
      for (int n = 1; n <= 4 * d; ++n) visit(d, n);
    } else {
      for (const int n : {1, d - 1, d, d + 1, 2 * d, 4 * d}) visit(d, n);
    }
  }
}

double bubble(std::string_view name, const Spec& spec, double forward, double backward) {
  return bubble_ratio(
      simulate(lower(generate(name, spec)), Costs::uniform(spec.stages, forward, backward)));
}

// Bubbles (D-1)/(N+D-1), one version, N and [1, D] micro-batches' activations.
// Reported cases (docs/cases.md): H2.
TEST(PaperFormulas, HoldForGPipeAnd1F1B) {
  for_all_sizes([](int d, int n) {
    const Spec spec{.stages = d, .micros = n};
    for (const char* name : {"gpipe", "1f1b"}) {
      const Program program = lower(generate(name, spec));
      const Verdict verdict = expect_proved(program, describe(name, spec));
      EXPECT_EQ(verdict.peak_versions, all_workers(d, 1));
      EXPECT_EQ(verdict.peak_stash,
                name == std::string("gpipe") ? all_workers(d, n) : descending(d, n));
      const Timeline timeline = simulate(program, Costs::uniform(d, 1, 2));
      EXPECT_DOUBLE_EQ(makespan(timeline), 3.0 * (n + d - 1)) << describe(name, spec);
      EXPECT_NEAR(bubble_ratio(timeline), (d - 1.0) / (n + d - 1), 1e-12);
    }
  });
}

// T = D F + N D B + (N-1) F, two stages' weights a worker (in the middle of an odd D, both are the
// same), one micro-batch's activations.
TEST(PaperFormulas, HoldForGems) {
  for_all_sizes([](int d, int n) {
    const Spec spec{.stages = d, .micros = n};
    const Program program = lower(generate("gems", spec));
    const Verdict verdict = expect_proved(program, describe("gems", spec));
    std::vector<int> weights(static_cast<std::size_t>(d), 2);
    if (d % 2 == 1) weights[static_cast<std::size_t>(d / 2)] = 1;
    EXPECT_EQ(verdict.peak_versions, weights) << describe("gems", spec);
    EXPECT_EQ(verdict.peak_stash, all_workers(d, 1));
    for (const double backward : {1.0, 2.0, 3.0}) {
      const Timeline timeline = simulate(program, Costs::uniform(d, 1, backward));
      EXPECT_DOUBLE_EQ(makespan(timeline), d + n * d * backward + n - 1) << describe("gems", spec);
    }
  });
}

TEST(PaperFormulas, GemsHasTheBubblesOfTable2ForManyMicroBatches) {
  for (int d = 2; d <= kMaxDepth; d += 2) {
    const double limit = (d - 1) / (d + 0.5);
    double before = 1;
    for (const int n : {1, d, 4 * d, 16 * d}) {
      const double ratio = bubble("gems", {.stages = d, .micros = n}, 1, 2);
      EXPECT_NEAR(ratio, limit, 1.0 / n) << d << " " << n;
      EXPECT_LE(std::abs(ratio - limit), before) << d << " " << n;
      before = std::abs(ratio - limit);
    }
  }
}

// From the forward of stage 0 to its backward.
TEST(PaperFormulas, GemsHasTwoMicroBatchesInFlight) {
  for (int d = 2; d <= 16; ++d) {
    const Timeline timeline =
        simulate(lower(generate("gems", {.stages = d, .micros = 9})), Costs::uniform(d, 1, 2));
    std::vector<std::pair<double, int>> changes;  // ends before starts at the same time
    for (const auto& row : timeline.rows) {
      for (const Interval& interval : row) {
        if (interval.action.stage != 0) continue;
        if (interval.action.op == Op::kForward) changes.emplace_back(interval.start_s, 1);
        if (interval.action.op == Op::kBackward) changes.emplace_back(interval.end_s, -1);
      }
    }
    std::sort(changes.begin(), changes.end());
    int in_flight = 0;
    for (const auto& [time_s, change] : changes) EXPECT_LE(in_flight += change, 2) << d;
  }
}

// Versions [1, D] and activations [1, D]; one micro-batch after the other without a bubble, so that
// only the warm-up and the drain of the whole run idle.
TEST(PaperFormulas, HoldForPipeDream) {
  for_all_sizes([](int d, int n) {
    const Spec spec{.stages = d, .micros = n};
    const Program program = lower(generate("pipedream", spec));
    const Verdict verdict = expect_proved(program, describe("pipedream", spec));
    EXPECT_EQ(verdict.peak_stash, descending(d, n)) << describe("pipedream", spec);
    for (int stage = 0; stage < d; ++stage) {
      const int versions = verdict.peak_versions[static_cast<std::size_t>(stage)];
      if (n >= 2 * (d - stage)) {
        EXPECT_EQ(versions, d - stage) << describe("pipedream", spec);
      } else {
        EXPECT_LE(versions, d - stage) << describe("pipedream", spec);
        EXPECT_GE(versions, std::min({n, 2, d - stage})) << describe("pipedream", spec);
      }
    }
    EXPECT_DOUBLE_EQ(makespan(simulate(program, Costs::uniform(d, 1, 2))), 3.0 * (n + d - 1));
  });
}

// Two versions from the second step on.
TEST(PaperFormulas, HoldForPipeDream2BW) {
  for_all_sizes([](int d, int n) {
    if (n > 2 * d) return;
    for (const int steps : {1, 3}) {
      const Spec spec{.stages = d, .micros = n, .steps = steps};
      const std::string what = describe("pipedream-2bw", spec);
      const Program program = lower(generate("pipedream-2bw", spec));
      const Verdict verdict = expect_proved(program, what);
      EXPECT_EQ(verdict.peak_versions, all_workers(d, std::min(steps, 2))) << what;
      if (n + 1 < d) continue;
      EXPECT_EQ(verdict.peak_stash, descending(d, n * steps)) << what;
      const Timeline timeline = simulate(program, Costs::uniform(d, 1, 2));
      EXPECT_DOUBLE_EQ(makespan(timeline), 3.0 * (n * steps + d - 1)) << what;
    }
  });
}

// The price of N < D-1: weights of two steps ago must not be needed, so fewer micro-batches run
// ahead.
TEST(PaperFormulas, PipeDream2BWIdlesWhereAStepHasFewMicroBatches) {
  for (int d = 3; d <= 12; ++d) {
    for (int n = 1; n + 1 < d; ++n) {
      const Spec spec{.stages = d, .micros = n, .steps = 6};
      EXPECT_GT(length("pipedream-2bw", spec, 1, 2), 3.0 * (n * 6 + d - 1)) << describe("", spec);
      const Verdict verdict = expect_proved("pipedream-2bw", spec);
      EXPECT_EQ(*std::max_element(verdict.peak_stash.begin(), verdict.peak_stash.end()), n + 1);
    }
  }
}

TEST(PaperFormulas, AsynchronousSchedulesHaveNoBubbleBetweenSteps) {
  for (const char* name : {"pipedream", "pipedream-2bw"}) {
    for (int d = 1; d <= 16; ++d) {
      for (const int n : {d, d + 1, 3 * d}) {
        for (int steps = 1; steps <= 3; ++steps) {
          const auto time = [&](int count) {
            return length(name, {.stages = d, .micros = n, .steps = count}, 1, 2);
          };
          EXPECT_DOUBLE_EQ(time(steps + 1) - time(steps), 3.0 * n) << name << " " << d << " " << n;
        }
      }
    }
  }
}

// N = kD: bubbles (D-2f)/(2fN+D-2f), 2f stages' weights, activations [D-D/(2f)+1, D]
// where N = D.
// Reported cases (docs/cases.md): H8, M1.
TEST(PaperFormulas, HoldForChimera) {
  for (int d = 2; d <= kMaxDepth; d += 2) {
    for (const int f : pair_counts(d)) {
      for (int k = 1; k <= 4; ++k) {
        const Spec spec{.stages = d, .micros = k * d, .pairs = f};
        const std::string what = describe("chimera", spec);
        const Verdict verdict = expect_proved("chimera", spec);
        EXPECT_EQ(verdict.peak_versions, all_workers(d, 2 * f));
        const auto [low, high] =
            std::minmax_element(verdict.peak_stash.begin(), verdict.peak_stash.end());
        if (k == 1) {
          EXPECT_EQ(*low, d - d / (2 * f) + 1) << what;
        }
        EXPECT_EQ(*high, d) << what;
        EXPECT_DOUBLE_EQ(length("chimera", spec, 1, 1), 2.0 * k * d + 1.0 * d / f - 2) << what;
        EXPECT_NEAR(bubble("chimera", spec, 1, 1), (d - 2.0 * f) / (2.0 * f * k * d + d - 2.0 * f),
                    1e-12);
      }
    }
  }
}

// f = 1: worker w < D/2 holds D - a + 1 with a = D/2 - w, and so does its mirror image.
// Reported cases (docs/cases.md): M1.
TEST(PaperFormulas, ChimeraBalancesItsActivations) {
  for (int d = 2; d <= kMaxDepth; d += 2) {
    const Verdict verdict = expect_proved("chimera", {.stages = d, .micros = d});
    for (int w = 0; w < d; ++w) {
      const int a = d / 2 - std::min(w, d - 1 - w);
      EXPECT_EQ(verdict.peak_stash[static_cast<std::size_t>(w)], d - a + 1) << d << " P" << w;
    }
  }
}

// C_f = D + 2(K-1) forwards and C_b = K(2D-2) backwards on the critical path of K units.
TEST(PaperFormulas, GiveDirectConcatenationItsCriticalPath) {
  for (int d = 2; d <= kMaxDepth; d += 2) {
    for (int k = 1; k <= 4; ++k) {
      for (const double backward : {1.0, 1.5, 2.0, 3.0}) {
        EXPECT_DOUBLE_EQ(length("chimera", {.stages = d, .micros = k * d}, 1, backward),
                         d + 2.0 * (k - 1) + k * (2.0 * d - 2) * backward)
            << d << " " << k << " " << backward;
      }
    }
  }
}

// Idle (D/2-1)(F+B) at B = 2F and (D/2-1)(4+2(U-1))F at B = 3F (as with recompute), U units;
// activations [3D/2+1, 2D].
TEST(PaperFormulas, GiveDoublingItsBubblesAndActivations) {
  for (int d = 2; d <= kMaxDepth; d += 2) {
    for (int units = 1; units <= 3; ++units) {
      const int n = 2 * d * units;
      const Spec spec{.stages = d, .micros = n, .method = Method::kDoubling};
      const std::string what = describe("chimera", spec);
      EXPECT_DOUBLE_EQ(length("chimera", spec, 1, 2), 3 * n + (d / 2.0 - 1) * 3) << what;
      EXPECT_DOUBLE_EQ(length("chimera", spec, 1, 3), 4 * n + (d / 2.0 - 1) * (4 + 2 * (units - 1)))
          << what;
      const Verdict verdict = expect_proved("chimera", spec, 1);
      const auto [low, high] =
          std::minmax_element(verdict.peak_stash.begin(), verdict.peak_stash.end());
      EXPECT_EQ(*low, 3 * d / 2 + 1) << what;
      EXPECT_EQ(*high, 2 * d) << what;
      EXPECT_EQ(verdict.peak_versions, all_workers(d, 2));
    }
  }
}

// Idle (D-2)F at B = 2F, F the forward of two halves, whatever the number of units. Fused doubling
// is the same with everything twice as long.
TEST(PaperFormulas, GiveHalvingItsBubbles) {
  for (int d = 2; d <= kMaxDepth; d += 2) {
    for (int units = 1; units <= 3; ++units) {
      const int n = 2 * d * units;
      Spec spec{.stages = d, .micros = n, .method = Method::kHalving};
      EXPECT_DOUBLE_EQ(length("chimera", spec, 0.5, 1), 1.5 * n + d - 2) << d << " " << units;
      expect_proved("chimera", spec);
      spec.method = Method::kDoubling;
      spec.fused = true;
      EXPECT_DOUBLE_EQ(length("chimera", spec, 1, 2), 3 * n + 2 * (d - 2)) << d << " " << units;
      expect_proved("chimera", spec);
    }
  }
}

// What Figure 18 measured as 1.200 and 1.053: with recompute (B = 3F) doubling is that much faster
// than GPipe.
TEST(PaperFormulas, DoublingIsFasterThanGPipeWithRecompute) {
  const auto gain = [](int n) {
    const Spec spec{.stages = 8, .micros = n};
    Spec doubling = spec;
    doubling.method = Method::kDoubling;
    return length("gpipe", spec, 1, 3) / length("chimera", doubling, 1, 3);
  };
  EXPECT_NEAR(gain(16), 1.211, 0.001);
  EXPECT_NEAR(gain(32), 1.068, 0.001);
}

// A recompute of its own can fill a bubble, so it costs a forward at most.
TEST(PaperFormulas, RecomputeCostsAForwardAtMost) {
  for (int d = 2; d <= 16; d += 2) {
    for (const Generator& generator : generators()) {
      for (const int n : {1, d, 2 * d, 4 * d}) {
        const Schedule schedule = generate(generator.name, {.stages = d, .micros = n});
        const Schedule again =
            with_recompute(schedule, std::vector<bool>(static_cast<std::size_t>(d), true));
        EXPECT_LE(length(again, 1, 2), length(schedule, 1, 3)) << generator.name << d << " " << n;
        EXPECT_GE(length(again, 1, 2), length(schedule, 1, 2)) << generator.name << d << " " << n;
      }
    }
  }
}

}  // namespace
}  // namespace chimera
