// Every generator x all sizes up to a bound: no violation. What the paper says of them is in
// paper_figures_test.cc and paper_formulas_test.cc.
#include "chimera/generate/generate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "chimera/base/error.h"
#include "chimera/base/random.h"
#include "chimera/generate/testing.h"
#include "chimera/schedule/recompute.h"

namespace chimera {
namespace {

constexpr ReducePolicy kPolicies[] = {ReducePolicy::kAtEnd, ReducePolicy::kEager,
                                      ReducePolicy::kEagerOpt};

// As ways_of; asynchronous ones over several numbers of steps.
std::vector<Spec> specs_of(const Generator& generator, int stages, int micros) {
  std::vector<Spec> ways = ways_of(generator, stages, micros);
  if (!generator.asynchronous) return ways;
  std::vector<Spec> specs;
  for (const Spec& way : ways) {
    for (const int steps : {1, 2, 3}) specs.emplace_back(way).steps = steps;
  }
  return specs;
}

// Calls visit(name, spec) for every generator, way and size up to `max_stages` and 3D + 1.
template <class Visit>
void for_each_spec(int max_stages, Visit visit) {
  for (const Generator& generator : generators()) {
    for (int d = 1; d <= max_stages; ++d) {
      for (int n = 1; n <= 3 * d + 1; ++n) {
        for (const Spec& spec : specs_of(generator, d, n)) visit(generator.name, spec);
      }
    }
  }
}

// Two actions of one slot whose messages cross two of the neighbour's need room for one message:
// the pairs of forwards of Figure 7 (d), and in doubling and halving with f > 1 the backwards of
// pipes of one direction. Nothing else does.
int capacity_of(const Spec& spec) {
  if (spec.method != Method::kDoubling && spec.method != Method::kHalving) return 0;
  return spec.pairs.value_or(1) > 1 || (spec.method == Method::kDoubling && !spec.fused) ? 1 : 0;
}

// Sets of stages to recompute: all of them for a few stages, else some.
std::vector<std::vector<bool>> recompute_sets(int stages) {
  const unsigned all = (1U << stages) - 1;
  std::vector<std::vector<bool>> sets;
  for (unsigned bits = 1; bits <= all; ++bits) {
    if (stages > 3 && bits != all && bits != 1 && bits != (0x55U & all)) continue;
    auto& set = sets.emplace_back();
    for (int stage = 0; stage < stages; ++stage) set.push_back((bits >> stage & 1U) != 0);
  }
  return sets;
}

// Reported cases (docs/cases.md): H1, H2, H8, H24, P7, P8.
TEST(Generate, EveryScheduleIsProvedForEverySmallSizeAndReducePolicy) {
  for_each_spec(8, [](std::string_view name, const Spec& spec) {
    const Schedule schedule = generate(name, spec);
    for (const ReducePolicy policy : kPolicies) {
      const Verdict verdict =
          expect_proved(lower(schedule, policy), describe(name, spec), capacity_of(spec));
      ASSERT_TRUE(verdict.ok());
      for (const int stash : verdict.peak_stash) {
        EXPECT_GE(stash, 0);
        EXPECT_LE(stash, schedule.micros * spec.pairs.value_or(1) * 2);
      }
    }
  });
}

// A worker that recomputes all holds one micro-batch's activations, right before their backward. A
// recompute stands between messages that were posted together: with pipes in both directions, one
// more must wait in the channel meanwhile.
TEST(Generate, EveryScheduleIsProvedWithRecompute) {
  for_each_spec(6, [](std::string_view name, const Spec& spec) {
    const Schedule schedule = generate(name, spec);
    const Verdict kept = verify(lower(schedule));
    const int capacity = capacity_of(spec) + (generator(name).paired ? 1 : 0);
    for (const auto& stages : recompute_sets(spec.stages)) {
      const Verdict verdict =
          expect_proved(lower(with_recompute(schedule, stages)), describe(name, spec), capacity);
      const bool all = std::count(stages.begin(), stages.end(), false) == 0;
      for (std::size_t worker = 0; worker < kept.peak_stash.size(); ++worker) {
        EXPECT_LE(verdict.peak_stash[worker], all ? 1 : kept.peak_stash[worker])
            << describe(name, spec) << " P" << worker;
      }
      EXPECT_EQ(verdict.peak_versions, kept.peak_versions) << describe(name, spec);
    }
  });
}

// Random durations: beginning an all-reduce early never costs time.
TEST(Generate, EagerOptIsNeverSlowerThanAtEnd) {
  const RandomStream random(7, 0);
  std::uint64_t drawn = 0;
  const auto draw = [&](int values) {
    std::vector<double> times;
    for (int i = 0; i < values; ++i) times.push_back(0.25 + 4 * random.uniform(drawn++));
    return times;
  };
  int faster = 0;
  for_each_spec(6, [&](std::string_view name, const Spec& spec) {
    Costs costs;
    costs.forward_s = draw(spec.stages);
    costs.backward_s = draw(spec.stages);
    costs.reduce_s = draw(spec.stages);
    costs.link.latency_s = draw(1)[0] / 8;
    costs.step_s = draw(1)[0] / 8;
    const Schedule schedule = generate(name, spec);
    const auto time = [&](ReducePolicy policy) {
      return makespan(simulate(lower(schedule, policy), costs));
    };
    const double at_end = time(ReducePolicy::kAtEnd);
    EXPECT_LE(time(ReducePolicy::kEagerOpt), at_end) << describe(name, spec);
    EXPECT_LE(time(ReducePolicy::kEager), at_end) << describe(name, spec);
    faster += time(ReducePolicy::kEagerOpt) < at_end ? 1 : 0;
  });
  EXPECT_GT(faster, 100);
}

// Section 3.1: fewer micro-batches than stages are spread evenly over the pipes; one uses one pipe.
TEST(Generate, ChimeraSpreadsFewMicroBatchesEvenly) {
  for (int d = 2; d <= 16; d += 2) {
    for (int n = 1; n <= d; ++n) {
      std::map<int, int> first_stage_forwards;
      for (const Row& row : generate("chimera", {.stages = d, .micros = n}).rows) {
        for (const Action& action : row) {
          if (action.op == Op::kForward && action.stage == 0) ++first_stage_forwards[action.pipe];
        }
      }
      EXPECT_EQ(first_stage_forwards[0], (n + 1) / 2);
      EXPECT_EQ(first_stage_forwards[1], n / 2);
    }
  }
}

struct Refusal {
  const char* name;
  Spec spec;
  const char* says;
};

// Reported cases (docs/cases.md): H23, P5, P8.
TEST(Generate, RefusesWhatCannotExistWithTheNearestLegalValues) {
  const std::vector<Refusal> refusals = {
      {"chimera", {.stages = 3, .micros = 4}, "nearest is 2 or 4"},
      {"chimera", {.stages = 1, .micros = 4}, "nearest is 2"},
      {"chimera", {.stages = 8, .micros = 4, .pairs = 3}, "must divide 4: 1, 2, 4"},
      {"chimera", {.stages = 8, .micros = 4, .pairs = 0}, "must divide 4: 1, 2, 4"},
      {"1f1b", {.stages = 4, .micros = 4, .pairs = 2}, "leave pairs out"},
      {"gems", {.stages = 4, .micros = 4, .pairs = 2}, "leave pairs out"},
      {"pipedream", {.stages = 4, .micros = 4, .pairs = 2}, "leave pairs out"},
      {"gpipe", {.stages = 0, .micros = 4}, "stages is 0"},
      {"gpipe", {.stages = 4, .micros = 0}, "micro-batches is 0"},
      {"gpipe", {.stages = 4096, .micros = 5000}, "1 to 4096 with 4096 stages"},
      {"gpipe", {.stages = 4, .micros = -1}, "micro-batches is -1"},
      {"gpipe",
       {.stages = 4, .micros = 4, .method = Method::kDoubling},
       "leave out the method dou"},
      {"gems",
       {.stages = 4, .micros = 4, .method = Method::kDirect},
       "leave out the method direct"},
      {"pipedream", {.stages = 4, .micros = 4, .method = Method::kHalving}, "it has no methods"},
      {"chimera", {.stages = 4, .micros = 4, .fused = true}, "belong to the method doubling"},
      {"chimera",
       {.stages = 4, .micros = 4, .method = Method::kHalving, .fused = true},
       "leave fused out"},
      {"gpipe", {.stages = 4, .micros = 4, .fused = true}, "leave fused out"},
      {"1f1b", {.stages = 4, .micros = 4, .steps = 2}, "steps is 2, but it ends with a step"},
      {"chimera", {.stages = 4, .micros = 4, .steps = 1}, "leave steps out"},
      {"pipedream", {.stages = 4, .micros = 4, .steps = 0}, "steps is 0; expected a number from 1"},
      {"pipedream-2bw", {.stages = 4, .micros = 4, .steps = -3}, "steps is -3; expected"},
      {"pipedream",
       {.stages = 4096, .micros = 4096, .steps = 2},
       "steps is 2; expected a number from 1 to 1 with 4096 stages and 4096 micro-batches"},
      {"pipedream-2bw",
       {.stages = 1024, .micros = 128, .steps = 2147483647},
       "from 1 to 128 with 1024 stages"},
      {"chimerra", {.stages = 4, .micros = 4}, "did you mean 'chimera'"},
      {"pipedream2bw", {.stages = 4, .micros = 4}, "did you mean 'pipedream-2bw'"},
  };
  for (const Refusal& refusal : refusals) {
    try {
      (void)generate(refusal.name, refusal.spec);
      ADD_FAILURE() << refusal.name << " was not refused: " << refusal.says;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      EXPECT_NE(std::string(error.what()).find(refusal.says), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW((void)method("tripling"), Error);
  EXPECT_EQ(method("halving"), Method::kHalving);
}

}  // namespace
}  // namespace chimera
