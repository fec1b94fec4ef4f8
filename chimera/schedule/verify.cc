// The proof, in four passes; each relies on what the ones before it found to be right.
//
// 1. Shape: every id is in range. Otherwise nothing else is looked at.
// 2. Rows, one worker at a time: the state of each (stage, micro-batch) that the row touches walks
//        input there -> forward -> gradient there -> input gradient -> weight gradient
//    and each action is allowed in some states only. This gives placement, order, dependencies on
//    the same worker and buffers' lives; update_rules.h gives reduction, versions of weights and
//    steps. Counts over all rows give what is missing and what is done twice.
// 3. Channels: the sends of one worker to another, in order, are the receives of the other from it.
// 4. Progress (progress.h): all rows side by side. With 2 and 3 this proves that the program ends
//    whatever the durations.
//
// What the channels must hold is found last (capacity.h).
//
// Time O(actions) in practice, O(actions * workers) for rows that run strictly one after another.
// Tests: verify_test.cc.
#include "chimera/schedule/verify.h"

#include <algorithm>
#include <map>
#include <utility>

#include "chimera/base/text.h"
#include "chimera/schedule/capacity.h"
#include "chimera/schedule/findings.h"
#include "chimera/schedule/progress.h"
#include "chimera/schedule/recompute.h"
#include "chimera/schedule/transfers.h"
#include "chimera/schedule/update_rules.h"

namespace chimera {
namespace {

// What has happened to a stage's micro-batch.
struct State {
  bool input = false, forward = false, sent = false, recomputed = false;
  bool gradient = false, backward_input = false, backward_weight = false, sent_gradient = false;
  int version = 0;  // of the weights that the forward read
};

class Verifier {
 public:
  Verifier(const Program& program, std::optional<int> room)
      : program_(program),
        room_(room),
        source_(program.source),
        states_(static_cast<std::size_t>(source_.stages()) *
                static_cast<std::size_t>(source_.micros)),
        pipe_of_(static_cast<std::size_t>(source_.micros), kNoPipe) {}

  Verdict run() {
    check_shape();
    if (findings_.none()) check_all();
    verdict_.violations = std::move(findings_.list());
    return std::move(verdict_);
  }

 private:
  static constexpr int kNoPipe = -1;

  void check_all() {
    const Recomputed recomputed(program_.rows, source_.stages(), source_.micros);
    const bool stepped = has_steps(source_);
    for (std::size_t worker = 0; worker < program_.rows.size(); ++worker) {
      check_row(worker, recomputed, stepped);
    }
    check_missing();
    transfers_.check(findings_.list());
    if (findings_.none()) check_progress(program_, findings_);
    if (!findings_.none()) return;
    verdict_.channels = transfers_.channels();
    find_capacities(program_, verdict_.channels);
    if (room_) check_room();
  }

  void check_room() {
    for (const Channel& channel : verdict_.channels) {
      if (channel.capacity <= *room_) continue;
      const auto from = static_cast<std::size_t>(channel.from);
      const Row& row = program_.rows[from];
      const auto first = std::find_if(row.begin(), row.end(), [&](const Action& action) {
        return is_send(action.op) &&
               channel_of(source_.placement, channel.from, action).to == channel.to;
      });
      findings_.add(Rule::kCapacity, {from, static_cast<std::size_t>(first - row.begin()), *first},
                    "the channel to worker ", channel.to, " must hold ", channel.capacity,
                    channel.capacity == 1 ? " message" : " messages", ", but the transport's hold ",
                    *room_);
    }
  }

  State& state(int stage, int micro) {
    return states_[static_cast<std::size_t>(stage) * static_cast<std::size_t>(source_.micros) +
                   static_cast<std::size_t>(micro)];
  }

  // ---- 1. shape

  [[nodiscard]] bool in_shape(const Action& action) const {
    if (action.op == Op::kStep && action.stage == kAllStages) return true;
    if (action.stage < 0 || action.stage >= source_.stages() || action.age < 0) return false;
    if (is_update(action.op) && action.op != Op::kStep) return action.micro == 0;
    if (action.pipe < 0 || action.pipe >= source_.pipes() || action.micro < 0 || action.span < 1 ||
        action.micro > source_.micros - action.span) {
      return false;
    }
    if (in_schedule(action.op)) return true;
    const int peer = peer_stage(action);
    return action.span == 1 && peer >= 0 && peer < source_.stages();
  }

  void check_shape() {
    if (source_.micros < 1 || source_.stages() < 1) {
      return findings_.add(Rule::kShape, {},
                           "a program has at least one stage and one micro-batch");
    }
    if (static_cast<int>(program_.rows.size()) != source_.workers()) {
      return findings_.add(Rule::kShape, {}, "the placement has ", source_.workers(),
                           " workers, the program ", program_.rows.size(), " rows");
    }
    for (std::size_t worker = 0; worker < program_.rows.size(); ++worker) {
      for (std::size_t i = 0; i < program_.rows[worker].size(); ++i) {
        const Action& action = program_.rows[worker][i];
        if (in_shape(action)) continue;
        findings_.add_action(Rule::kShape, {worker, i, action}, "lies outside ", source_.stages(),
                             " stages, ", source_.micros, " micro-batches and ", source_.pipes(),
                             " pipes, or is a message of more than one micro-batch");
      }
    }
  }

  // ---- 2. rows

  void check_row(std::size_t worker, const Recomputed& recomputed, bool stepped) {
    const Row& row = program_.rows[worker];
    UpdateRules updates(source_, worker, stepped, findings_);
    int stash = 0, peak = 0;
    for (std::size_t position = 0; position < row.size(); ++position) {
      const Place at{worker, position, row[position]};
      if (updates.done()) findings_.add_action(Rule::kStep, at, "comes after the step");
      if (is_update(at.action.op)) {
        updates.update(at);
        continue;
      }
      check_work(at, updates);
      if (is_compute(at.action.op)) stash += stash_change(at.action, recomputed);
      peak = std::max(peak, stash);
    }
    updates.end({worker, row.size(), {}});
    check_steps(worker, updates);
    verdict_.peak_stash.push_back(peak);
    verdict_.peak_versions.push_back(updates.peak_versions());
  }

  // All holders of a stage step after the same micro-batches.
  void check_steps(std::size_t worker, const UpdateRules& updates) {
    for (const UpdateRules::Steps& own : updates.steps()) {
      const auto [first, is_first] = steps_of_.try_emplace(own.stage, worker, own.micros);
      if (is_first || first->second.second == own.micros) continue;
      findings_.add(Rule::kStep,
                    {worker,
                     program_.rows[worker].size(),
                     {.op = Op::kStep, .stage = static_cast<std::int16_t>(own.stage)}},
                    "stage ", own.stage, " steps after micro-batches ", join(own.micros),
                    " here, but on worker ", first->second.first, " after ",
                    join(first->second.second));
    }
  }

  void check_work(const Place& at, UpdateRules& updates) {
    const Action& action = at.action;
    const int placed = source_.placement.worker(action.pipe, action.stage);
    if (placed != static_cast<int>(at.worker)) {
      findings_.add_action(Rule::kPlacement, at, "is on worker ", at.worker, ", but pipe ",
                           action.pipe, " has stage ", action.stage, " on worker ", placed);
    }
    check_pipe(at);
    if (!is_compute(action.op)) {
      transfers_.add({at.worker, at.position, action},
                     channel_of(source_.placement, static_cast<int>(at.worker), action));
    }
    const int version = is_compute(action.op) ? updates.version(at) : 0;
    for (int micro = action.micro; micro < action.micro + action.span; ++micro) {
      State& now = state(action.stage, micro);
      check_version(at, now, version);
      check_transition(at, now, micro);
    }
    if (contributes(action.op)) updates.contribution(at);
  }

  void check_version(const Place& at, State& now, int version) {
    if (at.action.op == Op::kForward) now.version = version;
    if (!is_compute(at.action.op) || !now.forward || now.version == version) return;
    findings_.add_action(Rule::kVersion, at, "reads version ", version,
                         " of the weights, but its forward read version ", now.version);
  }

  void check_pipe(const Place& at) {
    for (int micro = at.action.micro; micro < at.action.micro + at.action.span; ++micro) {
      int& pipe = pipe_of_[static_cast<std::size_t>(micro)];
      if (pipe == kNoPipe) pipe = at.action.pipe;
      if (pipe == at.action.pipe) continue;
      findings_.add_action(Rule::kPipe, at, "is in pipe ", at.action.pipe, ", but micro-batch ",
                           micro, " is in pipe ", pipe, " elsewhere");
    }
  }

  void check_transition(const Place& at, State& now, int micro) {
    switch (at.action.op) {
      case Op::kRecvActivation:
        return once(at, now.input);
      case Op::kForward:
        if (!has_input(at, now, micro)) {
          findings_.add_action(Rule::kDependency, at, "has no input: the activation of stage ",
                               at.action.stage - 1, " is not there");
        }
        return once(at, now.forward);
      case Op::kSendActivation:
        if (!now.forward)
          findings_.add_action(Rule::kLifetime, at, "sends an activation before it is computed");
        if (now.backward_weight) {
          findings_.add_action(Rule::kLifetime, at,
                               "sends an activation after the backward has freed it");
        }
        return once(at, now.sent);
      case Op::kRecvGradient:
        return once(at, now.gradient);
      case Op::kRecompute:
        if (!now.forward || now.backward_input || now.backward_weight) {
          findings_.add_action(Rule::kOrder, at,
                               "recomputes outside the time from forward to backward");
        }
        return once(at, now.recomputed);
      case Op::kBackward:
      case Op::kBackwardInput:
        check_backward(at, now, micro);
        if (at.action.op == Op::kBackward) once(at, now.backward_weight);
        return once(at, now.backward_input);
      case Op::kBackwardWeight:
        if (!now.backward_input)
          findings_.add_action(Rule::kOrder, at, "comes before the input gradient");
        return once(at, now.backward_weight);
      case Op::kSendGradient:
        if (!now.backward_input) {
          findings_.add_action(Rule::kLifetime, at, "sends a gradient before it is computed");
        }
        return once(at, now.sent_gradient);
      case Op::kReduceBegin:
      case Op::kReduceWait:
      case Op::kStashWeights:
      case Op::kFreeWeights:
      case Op::kStep:
        return;
    }
  }

  void check_backward(const Place& at, const State& now, int micro) {
    if (!now.forward) findings_.add_action(Rule::kOrder, at, "comes before its forward");
    if (!has_gradient(at, now, micro)) {
      findings_.add_action(Rule::kDependency, at, "has no gradient: that of stage ",
                           at.action.stage + 1, " is not there");
    }
  }

  void once(const Place& at, bool& done) {
    // A doubled backward is one finding, not one for each of its two gradients.
    if (done && !(at.action.op == Op::kBackward && findings_.ends_with(Rule::kDuplicate, at))) {
      findings_.add_action(Rule::kDuplicate, at, "is done a second time");
    }
    done = true;
  }

  // The neighbouring stage lies on this worker, so its result needs no message.
  [[nodiscard]] bool is_local(const Place& at, int stage) const {
    return source_.placement.worker(at.action.pipe, stage) == static_cast<int>(at.worker);
  }

  bool has_input(const Place& at, const State& now, int micro) {
    if (at.action.stage == 0 || now.input) return true;
    const int before = at.action.stage - 1;
    return is_local(at, before) && state(before, micro).forward;
  }

  bool has_gradient(const Place& at, const State& now, int micro) {
    const int after = at.action.stage + 1;
    if (after == source_.stages() || now.gradient) return true;
    return is_local(at, after) && state(after, micro).backward_input;
  }

  void check_missing() {
    for (int micro = 0; micro < source_.micros; ++micro) {
      const int pipe = std::max(pipe_of_[static_cast<std::size_t>(micro)], 0);
      for (int stage = 0; stage < source_.stages(); ++stage) {
        const State& end = state(stage, micro);
        if (!end.forward) add_missing(Op::kForward, stage, micro, pipe);
        if (!end.backward_input) {
          add_missing(end.backward_weight ? Op::kBackwardInput : Op::kBackward, stage, micro, pipe);
        } else if (!end.backward_weight) {
          add_missing(Op::kBackwardWeight, stage, micro, pipe);
        }
      }
    }
  }

  void add_missing(Op op, int stage, int micro, int pipe) {
    const auto worker = static_cast<std::size_t>(source_.placement.worker(pipe, stage));
    const Action action{.op = op,
                        .stage = static_cast<std::int16_t>(stage),
                        .pipe = static_cast<std::int16_t>(pipe),
                        .micro = micro};
    findings_.add(Rule::kMissing, {worker, program_.rows[worker].size(), action}, "micro-batch ",
                  micro, " has no ", info(op).name, " of stage ", stage);
  }

  const Program& program_;
  const std::optional<int> room_;
  const Schedule& source_;
  Verdict verdict_;
  Findings findings_;
  std::vector<State> states_;  // by (stage, micro)
  std::vector<int> pipe_of_;   // by micro
  Transfers transfers_;
  std::map<int, std::pair<std::size_t, std::vector<int>>> steps_of_;  // by stage: who, and when
};

}  // namespace

Verdict verify(const Program& program, std::optional<int> room) {
  return Verifier(program, room).run();
}

}  // namespace chimera
