#include "chimera/plan/explain.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "chimera/base/text.h"

namespace chimera {
namespace {

constexpr double kSame = 5e-4;  // what percent_text does not tell from 0

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

// What makes the busiest worker compute longer, as far as it shows.
std::string more_computation(const Candidate& one, const Candidate& best) {
  if (recomputed_blocks(one) > recomputed_blocks(best)) return " (it recomputes more)";
  if (one.micro_batch != best.micro_batch) {
    return cat(" (in micro-batches of ", one.micro_batch, ", not ", best.micro_batch, ")");
  }
  if (one.spec.stages > 1) return " (its stages are less even)";
  return "";
}

// A step is its busiest worker's computation and what that worker waits, sums and steps: so much
// longer, of the best step, is the one, and so much the other.
std::string lost_words(const Plan& plan, const Plan& best) {
  const Prediction &now = plan.prediction, &then = best.prediction;
  const double computes = (now.busy_s - then.busy_s) / then.step_s;
  const double waits = (now.step_s - now.busy_s - (then.step_s - then.busy_s)) / then.step_s;
  const auto part = [](std::string_view does, double more) {
    return cat(does, " ", percent_text(std::abs(more)), more > 0 ? " longer" : " less");
  };
  std::string computing = part("computes", computes) +
                          (computes > 0 ? more_computation(plan.candidate, best.candidate) : "");
  std::string waiting = part("waits", waits);
  if (std::abs(waits) < kSame) return computing;
  if (std::abs(computes) < kSame) return waiting;
  return computes > waits ? cat(computing, " and ", waiting) : cat(waiting, " and ", computing);
}

// Three digits and more, never less than it is.
std::string bytes_rounded_up(double bytes) {
  constexpr double kKilo = 1e3;
  const double digit = std::max(kKilo, std::pow(10, std::floor(std::log10(bytes)) - 2));
  return bytes_text(digit * std::ceil(bytes / digit));
}

// `needed` times what devices have.
std::string needed_words(const Machine& machine, double needed) {
  const auto& memory = machine.memory_bytes;
  const bool alike = std::ranges::all_of(memory, [&](double one) { return one == memory.front(); });
  const std::string amount =
      alike ? cat(bytes_rounded_up(needed * (memory.front() - machine.reserved_bytes)), " a device")
            : cat(fixed_text(std::ceil(100 * needed) / 100, 2), " times what each device has");
  return machine.reserved_bytes > 0 ? amount + " beside what is reserved" : amount;
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
  return cat(percent_text(slower), " slower than the best: its busiest worker ",
             lost_words(plan, best), "; ", memory);
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
    return cat(head, "memory; the least that would do is ", needed_words(request.machine, needed),
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
