#include "chimera/schedule/update_rules.h"

#include <algorithm>

namespace chimera {

UpdateRules::UpdateRules(const Schedule& schedule, std::size_t worker, bool stepped,
                         Findings& findings)
    : findings_(findings), stepped_(stepped) {
  for (const int stage : schedule.placement.stages_of(static_cast<int>(worker))) {
    weights_.push_back({.stage = stage});
  }
  count_versions();
}

UpdateRules::Weights* UpdateRules::find(int stage) {
  const auto found = std::find_if(weights_.begin(), weights_.end(),
                                  [&](const Weights& weights) { return weights.stage == stage; });
  return found == weights_.end() ? nullptr : &*found;
}

void UpdateRules::update(const Place& at) {
  const Action& action = at.action;
  if (action.op == Op::kStep && (action.stage == kAllStages) == stepped_) {
    findings_.add_action(Rule::kStep, at,
                         stepped_ ? "steps all stages, but the schedule steps each by itself"
                                  : "steps one stage, but the schedule steps all at the end");
  }
  if (action.op == Op::kStep && action.stage == kAllStages) {
    for (Weights& weights : weights_) {
      check_reduced(at, weights);
      weights.begun = weights.waited = false;
    }
    done_ = true;
    return;
  }
  Weights* weights = find(action.stage);
  if (weights == nullptr) {
    return findings_.add_action(
        Rule::kPlacement, at, action.op == Op::kReduceBegin ? "reduces" : "changes the weights of",
        " a stage that worker ", at.worker, " does not hold");
  }
  switch (action.op) {
    case Op::kStashWeights:
      return stash(at, *weights);
    case Op::kFreeWeights:
      return free(at, *weights);
    case Op::kStep:
      return step(at, *weights);
    default:
      return reduce(at, *weights);
  }
}

void UpdateRules::reduce(const Place& at, Weights& weights) {
  if (at.action.op == Op::kReduceBegin) {
    if (weights.begun) findings_.add_action(Rule::kReduce, at, "reduces the same gradient again");
    weights.begun = true;
    return;
  }
  if (!weights.begun) {
    findings_.add_action(Rule::kReduce, at, "waits for a reduction that has not begun");
  }
  if (weights.waited) {
    findings_.add_action(Rule::kReduce, at, "waits for the same reduction again");
  }
  weights.waited = true;
}

void UpdateRules::check_reduced(const Place& at, const Weights& weights) {
  if (weights.waited) return;
  findings_.add(Rule::kReduce,
                {at.worker,
                 at.position,
                 {.op = Op::kReduceWait, .stage = static_cast<std::int16_t>(weights.stage)}},
                "the gradient of stage ", weights.stage, " is not ",
                weights.begun ? "waited for" : "reduced", " before the step");
}

void UpdateRules::step(const Place& at, Weights& weights) {
  const int last = weights.steps.empty() ? -1 : weights.steps.back();
  if (at.action.micro <= last) {
    return findings_.add_action(Rule::kStep, at, "steps again: micro-batches up to ", last,
                                " were in the step before");
  }
  if (weights.pending > at.action.micro) {
    findings_.add_action(Rule::kStep, at, "is of micro-batches up to ", at.action.micro,
                         ", but the gradient has micro-batch ", weights.pending, " too");
  }
  check_reduced(at, weights);
  weights.steps.push_back(at.action.micro);
  weights.pending = -1;
  weights.begun = weights.waited = false;
}

void UpdateRules::stash(const Place& at, Weights& weights) {
  if (!weights.kept.insert(weights.newest()).second) {
    findings_.add_action(Rule::kVersion, at, "keeps version ", weights.newest(), " a second time");
  }
  count_versions();
}

void UpdateRules::free(const Place& at, Weights& weights) {
  const int freed = weights.newest() - at.action.age;
  if (weights.kept.erase(freed) == 0) {
    findings_.add_action(Rule::kVersion, at, "frees version ", freed, ", which is not kept");
  }
}

void UpdateRules::contribution(const Place& at) {
  Weights* weights = find(at.action.stage);
  if (weights == nullptr) return;  // reported as misplaced
  if (weights->begun) {
    findings_.add_action(Rule::kReduce, at, "adds to the gradient of stage ", at.action.stage,
                         " after its reduction began");
  }
  if (!weights->steps.empty() && at.action.micro <= weights->steps.back()) {
    findings_.add_action(Rule::kReduce, at, "adds to a gradient whose step, up to micro-batch ",
                         weights->steps.back(), ", is done");
  }
  weights->pending = std::max(weights->pending, at.action.micro + at.action.span - 1);
}

int UpdateRules::version(const Place& at) {
  const Weights* weights = find(at.action.stage);
  if (weights == nullptr) return 0;  // reported as misplaced
  const int version = weights->newest() - at.action.age;
  // A version is the newest, or kept; right before its step it is both.
  if (at.action.age != 0 && !weights->kept.contains(version)) {
    findings_.add_action(Rule::kVersion, at, "reads version ", version, " of stage ",
                         at.action.stage, ", which is not kept; the newest is ", weights->newest());
  }
  return version;
}

void UpdateRules::end(const Place& at) {
  if (!stepped_ && !done_) {
    findings_.add(Rule::kStep, {at.worker, at.position, {.op = Op::kStep, .stage = kAllStages}},
                  "the row has no step");
    for (Weights& weights : weights_) {
      check_reduced(at, weights);
      weights.begun = weights.waited = false;
    }
  }
  for (const Weights& weights : weights_) check_end(at, weights);
}

void UpdateRules::check_end(const Place& at, const Weights& weights) {
  const auto stage = static_cast<std::int16_t>(weights.stage);
  if (stepped_ && weights.pending >= 0) {
    findings_.add(Rule::kStep, {at.worker, at.position, {.op = Op::kStep, .stage = stage}},
                  "no step of stage ", stage, " follows the gradient of micro-batch ",
                  weights.pending);
  }
  if (weights.begun || weights.waited) {
    findings_.add(Rule::kReduce, {at.worker, at.position, {.op = Op::kStep, .stage = stage}},
                  "the gradient of stage ", stage, " is reduced, but no step follows");
  }
  for (const int version : weights.kept) {
    const int age = weights.newest() - version;
    findings_.add(Rule::kVersion,
                  {at.worker,
                   at.position,
                   {.op = Op::kFreeWeights, .stage = stage, .age = static_cast<std::int16_t>(age)}},
                  "version ", version, " of stage ", stage, " is kept and never freed");
  }
}

void UpdateRules::count_versions() {
  int versions = 0;
  for (const Weights& weights : weights_) {
    versions += 1 + static_cast<int>(weights.kept.size());
  }
  peak_versions_ = std::max(peak_versions_, versions);
}

std::vector<UpdateRules::Steps> UpdateRules::steps() const {
  std::vector<Steps> all;
  for (const Weights& weights : weights_) all.push_back({weights.stage, weights.steps});
  return all;
}

}  // namespace chimera
