// The proof, in four passes; each relies on what the ones before it found to be right.
//
// 1. Shape: every id is in range. Otherwise nothing else is looked at.
// 2. Rows, one worker at a time: the state of each (stage, micro-batch) that the row touches walks
//        input there -> forward -> gradient there -> input gradient -> weight gradient
//    and each action is allowed in some states only. This gives placement, order, dependencies on
//    the same worker, buffers' lives, reduction and step. Counts over all rows give what is missing
//    and what is done twice.
// 3. Channels: the sends of one worker to another, in order, are the receives of the other from it.
// 4. Progress: all rows side by side, where a receive waits for its send and a wait for all begins.
//    With 2 and 3 this proves that the program ends whatever the durations: what can go on depends
//    on what was done, not on when (the rows are a Kahn network).
//
// What the channels must hold is found last (capacity.h).
//
// Time O(actions) in practice, O(actions * workers) for rows that run strictly one after another. Tests: verify_test.cc.
#include "chimera/schedule/verify.h"

#include <algorithm>
#include <map>
#include <utility>

#include "chimera/base/text.h"
#include "chimera/schedule/capacity.h"
#include "chimera/schedule/transfers.h"
#include "chimera/schedule/walk.h"

namespace chimera {
namespace {

// What has happened to a stage's micro-batch.
struct State {
  bool input = false, forward = false, sent = false;
  bool gradient = false, backward_input = false, backward_weight = false, sent_gradient = false;
};

struct ReduceState {
  bool begun = false, waited = false;
};

class Verifier {
 public:
  explicit Verifier(const Program& program)
      : program_(program),
        source_(program.source),
        states_(static_cast<std::size_t>(source_.stages()) *
                static_cast<std::size_t>(source_.micros)),
        pipe_of_(static_cast<std::size_t>(source_.micros), kNoPipe) {}

  Verdict run() {
    check_shape();
    if (!verdict_.ok()) return std::move(verdict_);
    for (std::size_t worker = 0; worker < program_.rows.size(); ++worker) check_row(worker);
    check_missing();
    transfers_.check(verdict_.violations);
    if (verdict_.ok()) check_progress();
    if (verdict_.ok()) {
      verdict_.channels = transfers_.channels();
      find_capacities(program_, verdict_.channels);
    }
    return std::move(verdict_);
  }

 private:
  static constexpr int kNoPipe = -1;

  template <class... Parts>
  void add(Rule rule, std::size_t worker, std::size_t position, const Action& action,
           const Parts&... what) {
    verdict_.violations.push_back(
        {rule, static_cast<int>(worker), static_cast<int>(position), action, cat(what...)});
  }

  State& state(int stage, int micro) {
    return states_[static_cast<std::size_t>(stage) * static_cast<std::size_t>(source_.micros) +
                   static_cast<std::size_t>(micro)];
  }

  // ---- 1. shape

  [[nodiscard]] bool in_shape(const Action& action) const {
    if (action.op == Op::kStep) return true;
    if (action.stage < 0 || action.stage >= source_.stages()) return false;
    if (action.op == Op::kReduceBegin || action.op == Op::kReduceWait) return true;
    if (action.pipe < 0 || action.pipe >= source_.pipes() || action.micro < 0 || action.span < 1 ||
        action.micro > source_.micros - action.span) {
      return false;
    }
    if (is_compute(action.op)) return true;
    const int peer = peer_stage(action);
    return action.span == 1 && peer >= 0 && peer < source_.stages();
  }

  void check_shape() {
    if (source_.micros < 1 || source_.stages() < 1) {
      return add(Rule::kShape, 0, 0, {}, "a program has at least one stage and one micro-batch");
    }
    if (static_cast<int>(program_.rows.size()) != source_.workers()) {
      return add(Rule::kShape, 0, 0, {}, "the placement has ", source_.workers(),
                 " workers, the program ", program_.rows.size(), " rows");
    }
    for (std::size_t worker = 0; worker < program_.rows.size(); ++worker) {
      for (std::size_t i = 0; i < program_.rows[worker].size(); ++i) {
        const Action& action = program_.rows[worker][i];
        if (in_shape(action)) continue;
        add(Rule::kShape, worker, i, action, to_string(action), " lies outside ", source_.stages(),
            " stages, ", source_.micros, " micro-batches and ", source_.pipes(),
            " pipes, or is a message of more than one micro-batch");
      }
    }
  }

  // ---- 2. rows

  void check_row(std::size_t worker) {
    const Row& row = program_.rows[worker];
    Cursor at{worker, 0, {}, source_.placement.stages_of(static_cast<int>(worker)), {}};
    at.reduce.resize(at.held.size());
    int stash = 0, peak = 0;
    bool stepped = false;
    for (; at.position < row.size(); ++at.position) {
      at.action = row[at.position];
      if (stepped) {
        add(Rule::kStep, worker, at.position, at.action, to_string(at.action),
            " comes after the step");
      }
      if (at.action.op == Op::kStep) {
        check_reduced(at);
        stepped = true;
      } else if (at.action.op == Op::kReduceBegin || at.action.op == Op::kReduceWait) {
        check_reduce(at);
      } else {
        check_work(at);
        if (at.action.op == Op::kForward) stash += at.action.span;
        if (ends_stash(at.action.op)) stash -= at.action.span;
        peak = std::max(peak, stash);
      }
    }
    if (!stepped) {
      add(Rule::kStep, worker, row.size(), {.op = Op::kStep, .stage = kAllStages},
          "the row has no step");
      check_reduced(at);
    }
    verdict_.peak_stash.push_back(peak);
  }

  // Where the walk along one row is, and the reduction of each stage that the worker holds.
  struct Cursor {
    std::size_t worker, position;
    Action action;
    std::vector<int> held;
    std::vector<ReduceState> reduce;  // parallel to held

    ReduceState* reduction(int stage) {
      const auto found = std::find(held.begin(), held.end(), stage);
      return found == held.end() ? nullptr
                                 : &reduce[static_cast<std::size_t>(found - held.begin())];
    }
  };

  template <class... Parts>
  void add_at(const Cursor& at, Rule rule, const Parts&... what) {
    add(rule, at.worker, at.position, at.action, to_string(at.action), " ", what...);
  }

  void check_reduced(Cursor& at) {
    for (std::size_t i = 0; i < at.held.size(); ++i) {
      if (at.reduce[i].waited) continue;
      add(Rule::kReduce, at.worker, at.position,
          {.op = Op::kReduceWait, .stage = static_cast<std::int16_t>(at.held[i])},
          "the gradient of stage ", at.held[i], " is not ",
          at.reduce[i].begun ? "waited for" : "reduced", " before the step");
    }
  }

  void check_reduce(Cursor& at) {
    ReduceState* reduce = at.reduction(at.action.stage);
    if (reduce == nullptr) {
      return add_at(at, Rule::kPlacement, "reduces a stage that worker ", at.worker,
                    " does not hold");
    }
    if (at.action.op == Op::kReduceBegin) {
      if (reduce->begun) add_at(at, Rule::kReduce, "reduces the same gradient again");
      reduce->begun = true;
    } else {
      if (!reduce->begun) add_at(at, Rule::kReduce, "waits for a reduction that has not begun");
      if (reduce->waited) add_at(at, Rule::kReduce, "waits for the same reduction again");
      reduce->waited = true;
    }
  }

  void check_work(Cursor& at) {
    const Action& action = at.action;
    const int placed = source_.placement.worker(action.pipe, action.stage);
    if (placed != static_cast<int>(at.worker)) {
      add_at(at, Rule::kPlacement, "is on worker ", at.worker, ", but pipe ", action.pipe,
             " has stage ", action.stage, " on worker ", placed);
    }
    check_pipe(at);
    if (!is_compute(action.op))
      transfers_.add({at.worker, at.position, action}, channel_of(at.worker, action));
    for (int micro = action.micro; micro < action.micro + action.span; ++micro) {
      check_transition(at, state(action.stage, micro), micro);
    }
    if (contributes(action.op)) check_contribution(at);
  }

  void check_pipe(const Cursor& at) {
    for (int micro = at.action.micro; micro < at.action.micro + at.action.span; ++micro) {
      int& pipe = pipe_of_[static_cast<std::size_t>(micro)];
      if (pipe == kNoPipe) pipe = at.action.pipe;
      if (pipe == at.action.pipe) continue;
      add_at(at, Rule::kPipe, "is in pipe ", at.action.pipe, ", but micro-batch ", micro,
             " is in pipe ", pipe, " elsewhere");
    }
  }

  void check_contribution(Cursor& at) {
    const ReduceState* reduce = at.reduction(at.action.stage);
    if (reduce == nullptr || !reduce->begun) return;
    add_at(at, Rule::kReduce, "adds to the gradient of stage ", at.action.stage,
           " after its reduction began");
  }

  void check_transition(const Cursor& at, State& now, int micro) {
    switch (at.action.op) {
      case Op::kRecvActivation:
        return once(at, now.input);
      case Op::kForward:
        if (!has_input(at, now, micro)) {
          add_at(at, Rule::kDependency, "has no input: the activation of stage ",
                 at.action.stage - 1, " is not there");
        }
        return once(at, now.forward);
      case Op::kSendActivation:
        if (!now.forward) add_at(at, Rule::kLifetime, "sends an activation before it is computed");
        if (now.backward_weight) {
          add_at(at, Rule::kLifetime, "sends an activation after the backward has freed it");
        }
        return once(at, now.sent);
      case Op::kRecvGradient:
        return once(at, now.gradient);
      case Op::kRecompute:
        if (!now.forward || now.backward_weight) {
          add_at(at, Rule::kOrder, "recomputes outside the time from forward to backward");
        }
        return;
      case Op::kBackward:
      case Op::kBackwardInput:
        check_backward(at, now, micro);
        if (at.action.op == Op::kBackward) once(at, now.backward_weight);
        return once(at, now.backward_input);
      case Op::kBackwardWeight:
        if (!now.backward_input) add_at(at, Rule::kOrder, "comes before the input gradient");
        return once(at, now.backward_weight);
      case Op::kSendGradient:
        if (!now.backward_input) {
          add_at(at, Rule::kLifetime, "sends a gradient before it is computed");
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

  void check_backward(const Cursor& at, const State& now, int micro) {
    if (!now.forward) add_at(at, Rule::kOrder, "comes before its forward");
    if (!has_gradient(at, now, micro)) {
      add_at(at, Rule::kDependency, "has no gradient: that of stage ", at.action.stage + 1,
             " is not there");
    }
  }

  void once(const Cursor& at, bool& done) {
    if (done && !(at.action.op == Op::kBackward && reported_here(at))) {
      add_at(at, Rule::kDuplicate, "is done a second time");
    }
    done = true;
  }

  // A doubled backward is one finding, not one for each of its two gradients.
  [[nodiscard]] bool reported_here(const Cursor& at) const {
    if (verdict_.violations.empty()) return false;
    const Violation& last = verdict_.violations.back();
    return last.rule == Rule::kDuplicate && last.worker == static_cast<int>(at.worker) &&
           last.position == static_cast<int>(at.position);
  }

  // The neighbouring stage lies on this worker, so its result needs no message.
  [[nodiscard]] bool is_local(const Cursor& at, int stage) const {
    return source_.placement.worker(at.action.pipe, stage) == static_cast<int>(at.worker);
  }

  bool has_input(const Cursor& at, const State& now, int micro) {
    if (at.action.stage == 0 || now.input) return true;
    const int before = at.action.stage - 1;
    return is_local(at, before) && state(before, micro).forward;
  }

  bool has_gradient(const Cursor& at, const State& now, int micro) {
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
    add(Rule::kMissing, worker, program_.rows[worker].size(), action, "micro-batch ", micro,
        " has no ", info(op).name, " of stage ", stage);
  }

  // ---- 4. progress

  [[nodiscard]] ChannelEnds channel_of(std::size_t worker, const Action& action) const {
    return chimera::channel_of(source_.placement, static_cast<int>(worker), action);
  }

  void check_progress() {
    std::map<ChannelEnds, int> held;   // messages in each channel
    std::vector<std::size_t> missing;  // begins still to come, by stage
    for (int stage = 0; stage < source_.stages(); ++stage) {
      missing.push_back(source_.placement.holders(stage).size());
    }
    const auto attempt = [&](std::size_t worker, std::size_t position) {
      const Action& action = program_.rows[worker][position];
      auto& begins = missing[static_cast<std::size_t>(action.stage)];
      if (action.op == Op::kReduceBegin) --begins;
      if (action.op == Op::kReduceWait) return begins == 0;
      if (is_send(action.op)) ++held[channel_of(worker, action)];
      if (!is_recv(action.op)) return true;
      int& messages = held[channel_of(worker, action)];
      return messages > 0 && messages-- > 0;
    };
    const auto stops = walk(program_.rows, attempt);
    for (std::size_t worker = 0; worker < stops.size(); ++worker) {
      if (stops[worker] == program_.rows[worker].size()) continue;
      const Action& action = program_.rows[worker][stops[worker]];
      add(Rule::kProgress, worker, stops[worker], action, to_string(action),
          is_recv(action.op) ? cat(" waits for worker ", channel_of(worker, action).from)
                             : std::string(" waits for the other holders of its stage"),
          ", which waits in turn: no one can go on");
    }
  }

  const Program& program_;
  const Schedule& source_;
  Verdict verdict_;
  std::vector<State> states_;  // by (stage, micro)
  std::vector<int> pipe_of_;   // by micro
  Transfers transfers_;
};

}  // namespace

Verdict verify(const Program& program) { return Verifier(program).run(); }

}  // namespace chimera
