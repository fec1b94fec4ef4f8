#include "chimera/plan/explain.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "chimera/base/text.h"

namespace chimera {
namespace {

int recomputed_blocks(const Candidate& candidate) {
  return std::accumulate(candidate.recomputed.begin(), candidate.recomputed.end(), 0);
}

// The worker that comes nearest to its limit; the fullest where there are none.
std::size_t tightest(const Prediction& prediction) {
  std::size_t found = 0;
  const auto share = [&](std::size_t worker) {
    const double limit = prediction.limit_bytes[worker];
    return std::isfinite(limit) ? prediction.peak_bytes[worker] / limit
                                : prediction.peak_bytes[worker] * 1e-30;
  };
  for (std::size_t worker = 1; worker < prediction.peak_bytes.size(); ++worker) {
    if (share(worker) > share(found)) found = worker;
  }
  return found;
}

std::string memory_words(const Prediction& prediction) {
  const std::size_t worker = tightest(prediction);
  const double limit = prediction.limit_bytes[worker];
  const bool is_limited = std::isfinite(limit);
  const std::string held =
      cat("worker ", worker, is_limited ? " comes nearest to its limit, " : " holds most, ",
          bytes_text(prediction.peak_bytes[worker]));
  return is_limited ? cat(held, " of ", bytes_text(limit)) : held;
}

// What makes the busiest worker compute longer.
std::string more_computation(const Plan& plan, const Plan& best) {
  if (recomputed_blocks(plan.candidate) > recomputed_blocks(best.candidate)) {
    return "it recomputes activations to fit in memory";
  }
  if (plan.candidate.micro_batch < best.candidate.micro_batch) {
    return cat("micro-batches of ", plan.candidate.micro_batch,
               " keep the device less busy than those of ", best.candidate.micro_batch);
  }
  return "its stages are less even";
}

// Of those that came furthest, one that asks least of the batch.
const Refused& nearest_to_a_plan(const std::vector<Refused>& refused) {
  return *std::ranges::min_element(refused, {}, [](const Refused& one) {
    const std::int64_t at_once = std::int64_t{one.candidate.width} * one.candidate.micro_batch;
    return std::pair(-static_cast<int>(one.obstacle), at_once);
  });
}

std::string_view hint(Obstacle obstacle) {
  switch (obstacle) {
    case Obstacle::kBlocks:
      return "try fewer stages, or ranks that divide into more groups";
    case Obstacle::kBatch:
      return "try another number of ranks, another batch or other micro-batches";
    case Obstacle::kSize:
      return "try a smaller batch, or profile larger micro-batches";
    case Obstacle::kSchedule:
      return "try other schedules or another number of ranks";
    case Obstacle::kMemory:
      break;
  }
  return "try more ranks or smaller micro-batches";
}

}  // namespace

std::string reason(const Plan& plan, const Plan& best) {
  const Prediction& now = plan.prediction;
  const double slower = now.step_s / best.prediction.step_s - 1;
  const std::string memory = memory_words(now);
  constexpr double kSame = 5e-4;  // what percent_text does not tell from 0
  if (&plan == &best || slower < kSame) {
    const std::string time =
        cat(&plan == &best ? "" : "as fast as the best: ", "the busiest worker computes ",
            percent_text(now.busy_s / now.step_s), " of the step");
    const int again = recomputed_blocks(plan.candidate);
    return cat(
        time, ", ",
        again > 0 ? cat("with ", again, " blocks recomputed to fit; ") : "nothing is recomputed; ",
        memory);
  }
  const double lost = now.step_s - best.prediction.step_s;
  const bool computes = now.busy_s - best.prediction.busy_s > lost / 2;
  const std::string why =
      computes ? cat("its busiest worker computes ",
                     percent_text(now.busy_s / best.prediction.busy_s - 1),
                     " longer: ", more_computation(plan, best))
               : cat("workers idle ", percent_text(now.bubble_ratio), " of the time, not ",
                     percent_text(best.prediction.bubble_ratio));
  return cat(percent_text(slower), " slower than the best: ", why, "; ", memory);
}

std::string memory_reason(std::size_t worker, double peak_bytes, double limit_bytes) {
  return cat(
      "worker ", worker, " would hold ", bytes_text(peak_bytes), " of ", bytes_text(limit_bytes),
      ", with all its blocks recomputed: ", bytes_text(peak_bytes - limit_bytes), " too much");
}

std::string no_plan_reason(const Plans& plans, const PlanRequest& request, double needed) {
  const std::string head = cat("no plan for ", request.ranks, " ranks and batches of ",
                               request.batch, " on ", request.machine.name, ": ");
  if (needed > 0) {
    const auto& memory = request.machine.memory_bytes;
    const std::string least =
        memory.size() == 1
            ? cat(bytes_text(needed * (memory.front() - request.machine.reserved_bytes)),
                  " a device beside what is reserved")
            : cat(std::round(100 * needed) / 100,
                  " times the memory of each device beside what is reserved");
    return cat(head, "memory; the least that would do is ", least,
               "; try more ranks, smaller micro-batches or devices that hold more");
  }
  if (plans.refused.empty()) {
    return cat(head,
               "nothing is left of what was asked for; the sizes of micro-batches must be in "
               "the profile for every kind of layer, and schedules fit the stages");
  }
  const Refused& nearest = nearest_to_a_plan(plans.refused);
  return cat(head, "none of ", plans.refused.size(), " layouts can be; nearest is ",
             describe(nearest.candidate), ": ", nearest.reason, "; ", hint(nearest.obstacle));
}

}  // namespace chimera
