#include "chimera/plan/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/plan/candidates.h"
#include "chimera/plan/testing.h"
#include "chimera/schedule/verify.h"

namespace chimera {
namespace {

PlanRequest request_for(int blocks, int ranks, int batch, double gigabytes) {
  PlanRequest request;
  request.profile = test_profile(blocks);
  request.machine = test_machine(ranks, gigabytes);
  request.ranks = ranks;
  request.batch = batch;
  return request;
}

std::string refusal(const PlanRequest& request) {
  try {
    (void)plan(request);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  return "";
}

TEST(Plan, ListsPlansThatVerifyFitAndComeBestFirst) {
  const Plans plans = plan(request_for(8, 4, 32, 2));
  ASSERT_EQ(plans.best.size(), 10U);
  double before = 0;
  for (const Plan& found : plans.best) {
    EXPECT_GE(found.prediction.step_s, before) << describe(found.candidate);
    before = found.prediction.step_s;
    EXPECT_TRUE(verify(candidate_program(found.candidate, ReducePolicy::kEagerOpt, 3)).ok());
    EXPECT_EQ(found.candidate.width * found.candidate.spec.stages, 4);
    EXPECT_EQ(found.candidate.width * found.candidate.micro_batch * found.candidate.spec.micros,
              32);
    EXPECT_FALSE(found.why.empty());
    for (std::size_t w = 0; w < found.prediction.peak_bytes.size(); ++w) {
      EXPECT_LE(found.prediction.peak_bytes[w], found.prediction.limit_bytes[w]);
    }
  }
}

// Branch and bound against simulating every candidate as it stands.
TEST(Plan, FindsWhatSimulatingEverythingFinds) {
  for (const double gigabytes : {0.0, 3.0, 1.2, 0.7}) {
    for (const bool barrier : {true, false}) {
      PlanRequest request = request_for(8, 8, 32, gigabytes);
      request.barrier = barrier;
      request.most = 1;
      const Plans few = plan(request);
      request.most = 1'000'000;
      const Plans all = plan(request);
      EXPECT_LT(few.simulated, all.simulated);
      // Of both the same few got a better split.
      EXPECT_EQ(all.best.front().prediction.step_s, few.best.front().prediction.step_s)
          << gigabytes;
    }
  }
}

TEST(Plan, DoesNotDependOnHowManyAreWanted) {
  PlanRequest request = request_for(9, 8, 32, 0.7);
  const Plans ten = plan(request);
  for (const int most : {1, 2, 30}) {
    request.most = most;
    const Plans plans = plan(request);
    EXPECT_LE(plans.best.size(), static_cast<std::size_t>(most));
    EXPECT_EQ(describe(plans.best[0].candidate), describe(ten.best[0].candidate)) << most;
    EXPECT_EQ(plans.best[0].candidate.split, ten.best[0].candidate.split) << most;
  }
}

TEST(Plan, RecomputesNoMoreThanMemoryAsks) {
  PlanRequest request = request_for(8, 4, 32, 0);
  request.schedules = {"1f1b"};
  request.stages = {4};
  request.micro_batches = {4};
  const Plan free = plan(request).best.front();
  EXPECT_EQ(free.candidate.recomputed, std::vector<int>(4, 0));
  const double peak = *std::ranges::max_element(free.prediction.peak_bytes);
  request.machine.memory_bytes = {0.5 * peak};
  const Plan tight = plan(request).best.front();
  EXPECT_NE(tight.candidate.recomputed, std::vector<int>(4, 0));
  EXPECT_LE(*std::ranges::max_element(tight.prediction.peak_bytes), kPlannedMemory * 0.5 * peak);
  EXPECT_GT(tight.prediction.step_s, free.prediction.step_s);
  EXPECT_NE(tight.why.find("recomputed"), std::string::npos) << tight.why;
}

TEST(Plan, SaysTheLeastMemoryThatWouldDo) {
  PlanRequest request = request_for(8, 4, 32, 0.01);
  const std::string why = refusal(request);
  ASSERT_NE(why.find("the least that would do is "), std::string::npos) << why;
  const auto at = why.find("would do is ") + 12;
  const std::string words = why.substr(at, why.find(" a device") - at);
  const double said = std::stod(words) * (words.ends_with("GB") ? 1 : 1e-3);
  for (const double part : {0.4, 0.8, 0.97, 1.02}) {
    request.machine.memory_bytes = {part * said * 1e9};
    EXPECT_EQ(refusal(request).empty(), part > 1) << part << why;
  }
}

TEST(Plan, EachDeviceHasItsOwnLimit) {
  PlanRequest request = request_for(8, 4, 16, 0);
  request.schedules = {"1f1b"};
  request.stages = {4};
  request.micro_batches = {2};
  const Plan free = plan(request).best.front();
  const double peak = *std::ranges::max_element(free.prediction.peak_bytes);
  request.machine.memory_bytes = {peak, peak, 0.6 * peak, peak};
  const Plan capped = plan(request).best.front();
  EXPECT_LE(capped.prediction.peak_bytes[2], 0.6 * peak);
  request.machine.memory_bytes = {peak, peak, 0.01 * peak, peak};
  EXPECT_NE(refusal(request).find("the least that would do"), std::string::npos);
}

// One candidate: a single worker, so that the split is given.
PlanRequest request_for_one_worker() {
  PlanRequest request = request_for(8, 1, 16, 0);
  request.schedules = {"gpipe"};
  request.micro_batches = {2};
  return request;
}

double peak_of(const PlanRequest& request, int recomputed) {
  Candidate candidate = candidates(request).possible.front();
  candidate.split = {8};
  candidate.recomputed = {recomputed};
  return predict(candidate, request).peak_bytes.front();
}

TEST(Plan, TakesWhatFills97PercentOfADeviceAndNotWhatFills99) {
  PlanRequest request = request_for_one_worker();
  const auto recomputed_where = [&](double part) {
    request.machine.memory_bytes = {peak_of(request, 0) / part + 1e9};
    request.machine.reserved_bytes = 1e9;  // not a part of what is filled
    return plan(request).best.front().candidate.recomputed.front();
  };
  EXPECT_EQ(recomputed_where(0.97), 0);
  EXPECT_EQ(recomputed_where(0.9799), 0);
  EXPECT_GT(recomputed_where(0.9801), 0);
  EXPECT_GT(recomputed_where(0.99), 0);
}

TEST(Plan, RefusesWhatFills99PercentWithAllRecomputed) {
  PlanRequest request = request_for_one_worker();
  const double least = peak_of(request, 8);
  request.machine.memory_bytes = {least / 0.97};
  const Plan tight = plan(request).best.front();
  EXPECT_EQ(tight.candidate.recomputed, std::vector<int>{8});
  EXPECT_EQ(tight.prediction.peak_bytes.front(), least);
  request.machine.memory_bytes = {least / 0.99};
  EXPECT_NE(refusal(request).find("memory; the least that would do is "), std::string::npos);
  // Beside others that fit it is listed with what it lacks.
  request = request_for(8, 2, 16, 0);
  request.machine.memory_bytes = {least / 0.99};
  request.micro_batches = {2};
  bool is_listed = false;
  for (const Refused& refused : plan(request).refused) {
    if (refused.needed_bytes == 0) continue;
    is_listed = true;
    EXPECT_GT(refused.needed_bytes, kPlannedMemory * least / 0.99) << refused.reason;
    EXPECT_NE(refused.reason.find(" too much"), std::string::npos) << refused.reason;
  }
  EXPECT_TRUE(is_listed);
}

// Worker w of a group runs on device w + D of the next one, too.
TEST(Plan, AWorkerHoldsNoMoreThanTheSmallestOfItsDevicesInAllGroups) {
  PlanRequest request = request_for(8, 8, 64, 0);
  request.machine.memory_bytes = {2e9, 1.5e9, 0.9e9, 2e9, 0.8e9, 2e9, 2e9, 1.4e9};
  request.machine.reserved_bytes = 0.1e9;
  request.most = 1000;
  std::vector<int> seen;  // numbers of groups
  for (const Plan& found : plan(request).best) {
    const Candidate& candidate = found.candidate;
    const int workers = candidate.spec.stages;
    seen.push_back(candidate.width);
    for (int rank = 0; rank < 8; ++rank) {
      const auto device = static_cast<std::size_t>(rank);
      const auto worker = static_cast<std::size_t>(rank % workers);
      EXPECT_LE(found.prediction.peak_bytes[worker],
                kPlannedMemory * (request.machine.memory_bytes[device] - 0.1e9))
          << describe(candidate) << ", rank " << rank;
    }
  }
  EXPECT_TRUE(std::ranges::count(seen, 1) > 0 && std::ranges::count(seen, 2) > 0);
}

// What is reserved is not for us, so it is left as it is.
TEST(Plan, SaysHowManyTimesTheMemoryWouldDoWhereDevicesDiffer) {
  PlanRequest request = request_for(8, 4, 32, 0);
  const std::vector<double> free = {20e6, 30e6, 15e6, 40e6};
  request.machine.reserved_bytes = 1e9;
  const auto set_times = [&](double times) {
    request.machine.memory_bytes.clear();
    for (const double bytes : free) request.machine.memory_bytes.push_back(1e9 + times * bytes);
  };
  set_times(1);
  const std::string why = refusal(request), before = "the least that would do is ";
  const auto at = why.find(before);
  ASSERT_NE(at, std::string::npos) << why;
  EXPECT_NE(why.find(" times what each device has beside what is reserved"), std::string::npos)
      << why;
  const double said = std::stod(why.substr(at + before.size()));
  set_times(0.97 * said);
  EXPECT_NE(refusal(request), "") << why;
  set_times(1.02 * said);
  EXPECT_EQ(refusal(request), "") << why;
}

TEST(Plan, RefusesWithReasons) {
  PlanRequest request = request_for(8, 6, 32, 0);
  const Plans plans = plan(request);
  const auto has = [&](std::string_view part) {
    return std::any_of(plans.refused.begin(), plans.refused.end(), [&](const Refused& refused) {
      return refused.reason.find(part) != std::string::npos;
    });
  };
  EXPECT_TRUE(has("no multiple of W x B"));
  EXPECT_TRUE(has("it steps after every micro-batch"));
  request.no_asynchronous = "train.clip is 1";
  const Plans without = plan(request);
  EXPECT_TRUE(std::none_of(without.best.begin(), without.best.end(), [](const Plan& found) {
    return found.candidate.generator->asynchronous;
  }));
}

TEST(Plan, RefusesRequestsThatMakeNoSense) {
  EXPECT_NE(refusal(request_for(8, 0, 32, 0)).find("the number of ranks is 0"), std::string::npos);
  EXPECT_NE(refusal(request_for(8, 4, -1, 0)).find("the batch is -1"), std::string::npos);
  PlanRequest request = request_for(8, 4, 32, 0);
  request.ranks = 8;
  EXPECT_NE(refusal(request).find("at most 4"), std::string::npos);
  request = request_for(8, 4, 32, 0);
  request.stages = {3};
  EXPECT_NE(refusal(request).find("the number of stages is 3"), std::string::npos);
  EXPECT_NE(refusal(request_for(8, 11, 13, 0)).find("no plan for 11 ranks"), std::string::npos);
}

// Recompute whose work is more than it saves: more of it does not help, and the search ends.
TEST(Plan, EndsWhereRecomputeHoldsMoreThanItSaves) {
  PlanRequest request = request_for(2, 2, 2, 0);
  for (LayerKind& kind : request.profile.kinds) {
    for (LayerPoint& point : kind.points) point.recompute_work_bytes = 1e9;
  }
  request.schedules = {"gpipe"};
  request.stages = {2};
  for (double gigabytes = 0.05; gigabytes < 1.5; gigabytes *= 1.1) {
    request.machine.memory_bytes = {gigabytes * 1e9, 2e9};
    (void)refusal(request);
  }
}

// Two blocks on two workers that hold both: their sum in another order may be rounded up.
TEST(Plan, OfTwoBlocksIsFoundForAnyTimes) {
  for (int i = 1; i <= 200; ++i) {
    PlanRequest request = request_for(2, 2, 4, 0);
    for (LayerKind& kind : request.profile.kinds) {
      for (LayerPoint& point : kind.points) {
        point.forward_s *= 0.1 + 0.37 * i;
        point.backward_s *= 0.3 + 0.11 * i;
        point.backward_input_s = point.backward_s / 3;
      }
    }
    EXPECT_FALSE(plan(request).best.empty());
  }
}

// A better split is looked for among some with which an asynchronous schedule has no steady time.
TEST(Plan, IsFoundWhereSomeSplitsHaveNoSteadyTime) {
  for (const double latency_s : {15e-3, 31e-3, 42e-3}) {
    for (const int blocks : {5, 6, 10}) {
      PlanRequest request = request_for(blocks, 3, 12, 0);
      request.machine.between.p2p.latency_s = request.machine.within.p2p.latency_s = latency_s;
      request.schedules = {"pipedream-2bw"};
      request.stages = {3};
      EXPECT_EQ(refusal(request), "") << latency_s << ", " << blocks;
    }
  }
}

// How long it takes is measured by bench/plan_speed.cc; nearly all of it is simulations.
TEST(Plan, OfTwoThousandRanksSimulatesFewOfThem) {
  for (const bool barrier : {true, false}) {
    PlanRequest request = request_for(64, 2048, 2048, 16);
    request.barrier = barrier;
    const Plans plans = plan(request);
    EXPECT_EQ(plans.best.size(), 10U);
    EXPECT_LT(plans.simulated, plans.considered) << "better splits of the best included";
  }
}

}  // namespace
}  // namespace chimera
