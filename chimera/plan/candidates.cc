#include "chimera/plan/candidates.h"

#include <algorithm>

#include "chimera/base/text.h"

namespace chimera {
namespace {

template <class Value>
bool asked(const std::vector<Value>& list, const Value& value) {
  return list.empty() || std::find(list.begin(), list.end(), value) != list.end();
}

std::vector<int> divisors(int number) {
  std::vector<int> all;
  for (int i = 1; i <= number; ++i) {
    if (number % i == 0) all.push_back(i);
  }
  return all;
}

// Sizes of micro-batches that the profile has measured for all kinds of layers.
std::vector<int> profiled_sizes(const Profile& profile) {
  std::vector<int> sizes;
  for (const LayerPoint& point : profile.kind(profile.blocks.front()).points) {
    const bool everywhere =
        std::all_of(profile.kinds.begin(), profile.kinds.end(), [&](const LayerKind& kind) {
          return kind.points.front().sequences <= point.sequences &&
                 point.sequences <= kind.points.back().sequences;
        });
    if (everywhere) sizes.push_back(point.sequences);
  }
  return sizes;
}

// Stages times micro-batches of one candidate: all of them together take seconds then.
constexpr std::int64_t kMostCells = 1 << 15;

class Enumeration {
 public:
  explicit Enumeration(const PlanRequest& request) : request_(request) {}

  Candidates all() && {
    for (const int stages : divisors(request_.ranks)) {
      if (asked(request_.stages, stages)) add_stages(stages);
    }
    return std::move(candidates_);
  }

 private:
  void add_stages(int stages) {
    Candidate candidate{.width = request_.ranks / stages};
    candidate.spec.stages = stages;
    const auto blocks = std::ssize(request_.profile.blocks);
    if (stages > blocks) {
      refuse(candidate, Obstacle::kBlocks,
             cat(stages, " stages are more than the model's ", blocks, " blocks"));
      return;
    }
    for (const int size : request_.micro_batches.empty() ? profiled_sizes(request_.profile)
                                                         : request_.micro_batches) {
      candidate.micro_batch = size;
      add_size(candidate);
    }
  }

  void add_size(Candidate candidate) {
    const std::int64_t at_once = std::int64_t{candidate.width} * candidate.micro_batch;
    if (request_.batch % at_once != 0) {
      refuse(candidate, Obstacle::kBatch,
             cat("the batch of ", request_.batch, " sequences is no multiple of W x B = ",
                 candidate.width, " x ", candidate.micro_batch));
      return;
    }
    candidate.spec.micros = static_cast<int>(request_.batch / at_once);
    const std::int64_t cells = std::int64_t{candidate.spec.stages} * candidate.spec.micros;
    if (cells > kMostCells) {
      refuse(candidate, Obstacle::kSize,
             cat(candidate.spec.micros, " micro-batches on ", candidate.spec.stages,
                 " stages are more than a plan simulates (", kMostCells,
                 " together); larger micro-batches or more groups have fewer"));
      return;
    }
    for (const Generator& generator : generators()) {
      if (!asked(request_.schedules, std::string(generator.name))) continue;
      candidate.generator = &generator;
      add_generator(candidate);
    }
  }

  void add_generator(Candidate candidate) {
    const Generator& generator = *candidate.generator;
    const Spec& spec = candidate.spec;
    if (generator.even_stages && spec.stages % 2 != 0) {
      refuse(candidate, Obstacle::kSchedule,
             cat("it needs an even number of stages, not ", spec.stages));
    } else if (generator.asynchronous && !request_.no_asynchronous.empty()) {
      refuse(candidate, Obstacle::kSchedule, request_.no_asynchronous);
    } else if (generator.name == "pipedream" && spec.micros != 1) {
      // Each micro-batch is a step of its own; the mini-batch must be one.
      refuse(candidate, Obstacle::kSchedule,
             cat("it steps after every micro-batch, and a step of ", request_.batch,
                 " sequences has ", spec.micros, " of them"));
    } else if (generator.paired) {
      for (const int pairs : legal_pairs(spec.stages)) {
        candidate.spec.pairs = pairs;
        add_methods(candidate);
      }
    } else {
      candidates_.possible.push_back(candidate);
    }
  }

  void add_methods(Candidate candidate) {
    if (!candidate.generator->methods) return candidates_.possible.push_back(candidate);
    Spec& spec = candidate.spec;
    spec.method = Method::kDirect;
    candidates_.possible.push_back(candidate);
    // Up to one base unit, doubling is what direct is.
    if (spec.micros > spec.stages) {
      spec.method = Method::kDoubling;
      candidates_.possible.push_back(candidate);
      spec.fused = true;
      candidates_.possible.push_back(candidate);
      spec.fused = false;
    }
    if (spec.micros > 1) {
      spec.method = Method::kHalving;
      candidates_.possible.push_back(candidate);
    }
  }

  void refuse(const Candidate& candidate, Obstacle obstacle, const std::string& reason) {
    candidates_.refused.push_back({.candidate = candidate, .obstacle = obstacle, .reason = reason});
  }

  const PlanRequest& request_;
  Candidates candidates_;
};

}  // namespace

Candidates candidates(const PlanRequest& request) { return Enumeration(request).all(); }

}  // namespace chimera
