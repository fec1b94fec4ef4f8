#include "interpret.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "chimera/base/text.h"
#include "chimera/schedule/recompute.h"
#include "chimera/schedule/walk.h"

namespace chimera {
namespace {

// What a worker has of a stage's micro-batch.
struct Cell {
  bool input = false, output = false, stash = false, freed = false;
  bool gradient = false, input_gradient = false;
  int version = 0;
};

// A worker's weights of a stage.
struct Weights {
  int newest = 0, last = -1;  // version; last micro-batch of its steps
  std::set<int> kept;
  std::multiset<int> gradient, sum;  // of which micro-batches: its own, and after the all-reduce
  std::size_t rounds = 0;            // all-reduces waited for
  bool begun = false, waited = false;
};

struct Reduction {
  int begun = 0;
  std::multiset<int> sum;
};

class Interpreter {
 public:
  explicit Interpreter(const Program& program)
      : program_(program),
        placement_(program.source.placement),
        stages_(placement_.stages()),
        micros_(program.source.micros),
        recomputed_(program.rows, stages_, micros_) {
    for (int worker = 0; worker < placement_.workers(); ++worker) {
      for (const int stage : placement_.stages_of(worker)) weights_[{worker, stage}];
    }
  }

  std::string run() {
    const auto stops = walk(program_.rows, [this](std::size_t worker, std::size_t position) {
      return fault_.empty() && attempt(static_cast<int>(worker), program_.rows[worker][position]) &&
             fault_.empty();
    });
    for (std::size_t worker = 0; fault_.empty() && worker < stops.size(); ++worker) {
      if (stops[worker] != program_.rows[worker].size()) fail(cat("P", worker, " waits for ever"));
    }
    if (fault_.empty()) check_end();
    return fault_;
  }

 private:
  using Message = std::tuple<bool, int, int, int>;  // activation, receiving stage, micro, pipe

  bool fail(const std::string& why) {
    if (fault_.empty()) fault_ = why;
    return true;
  }

  [[nodiscard]] bool in_shape(const Action& a) const {
    if (a.op == Op::kStep && a.stage == kAllStages) return true;
    if (a.stage < 0 || a.stage >= stages_ || a.age < 0) return false;
    if (is_update(a.op)) return a.op != Op::kStep || (a.micro >= 0 && a.micro < micros_);
    if (a.pipe < 0 || a.pipe >= placement_.pipes()) return false;
    if (a.micro < 0 || a.span < 1 || a.micro + a.span > micros_) return false;
    if (!is_send(a.op) && !is_recv(a.op)) return true;
    return a.span == 1 && peer_stage(a) >= 0 && peer_stage(a) < stages_;
  }

  // False where the worker must wait.
  bool attempt(int worker, const Action& action) {
    if (!in_shape(action)) return fail(to_string(action) + " is out of shape");
    if (is_recv(action.op)) return receive(worker, action);
    if (is_send(action.op)) return send(worker, action);
    if (is_compute(action.op)) {
      for (int i = 0; i < action.span; ++i) compute(worker, action, action.micro + i);
      return true;
    }
    if (action.op == Op::kStep && action.stage == kAllStages) {
      for (auto& [place, weights] : weights_) {
        if (place.first == worker) step(weights, micros_ - 1);
      }
      return true;
    }
    const auto weights = weights_.find({worker, action.stage});
    if (weights == weights_.end()) return fail(to_string(action) + " of weights that are not here");
    return update(action, weights->second);
  }

  Cell& cell(int worker, int stage, int micro) { return cells_[{worker, stage, micro}]; }

  static Message content(const Action& action) {
    const bool activation = action.op == Op::kSendActivation || action.op == Op::kRecvActivation;
    return {activation, is_send(action.op) ? peer_stage(action) : int{action.stage}, action.micro,
            action.pipe};
  }

  bool send(int worker, const Action& action) {
    const Cell& from = cell(worker, action.stage, action.micro);
    const bool there =
        action.op == Op::kSendActivation ? from.output && !from.freed : from.input_gradient;
    if (!there) return fail(to_string(action) + " sends what is not there");
    channels_[{worker, placement_.worker(action.pipe, peer_stage(action))}].push_back(
        content(action));
    return true;
  }

  bool receive(int worker, const Action& action) {
    auto& channel = channels_[{placement_.worker(action.pipe, peer_stage(action)), worker}];
    if (channel.empty()) return false;
    if (channel.front() != content(action)) return fail(to_string(action) + " takes another");
    channel.pop_front();
    Cell& to = cell(worker, action.stage, action.micro);
    (action.op == Op::kRecvActivation ? to.input : to.gradient) = true;
    return true;
  }

  void compute(int worker, const Action& action, int micro) {
    const auto found = weights_.find({worker, action.stage});
    Cell& own = cell(worker, action.stage, micro);
    if (found == weights_.end()) {
      fail(to_string(action) + " without weights");
      return;
    }
    Weights& weights = found->second;
    const int version = weights.newest - action.age;
    const bool forward = action.op == Op::kForward;
    if (version != weights.newest && !weights.kept.contains(version)) {
      fail(to_string(action) + " reads a version that is not there");
    }
    if (!forward && version != own.version) fail(to_string(action) + " reads another version");
    if (!has_inputs(worker, action, micro)) fail(to_string(action) + " lacks an input");
    if (forward) {
      own.output = true;
      own.stash = !recomputed_.contains(action.stage, micro);
      own.version = version;
    }
    if (action.op == Op::kRecompute) own.stash = true;
    if (yields_gradient(action.op)) own.input_gradient = true;
    if (!contributes(action.op)) return;
    if (weights.begun) fail(to_string(action) + " comes after the reduction began");
    weights.gradient.insert(micro);
    own.stash = false;
    own.freed = true;
  }

  bool has_inputs(int worker, const Action& action, int micro) {
    const Cell& own = cell(worker, action.stage, micro);
    switch (action.op) {
      case Op::kForward:
        return action.stage == 0 || own.input || cell(worker, action.stage - 1, micro).output;
      case Op::kRecompute:
        return own.output;
      case Op::kBackwardWeight:
        return own.stash && own.input_gradient;
      default:
        return own.stash && (action.stage + 1 == stages_ || own.gradient ||
                             cell(worker, action.stage + 1, micro).input_gradient);
    }
  }

  bool update(const Action& action, Weights& weights) {
    auto& rounds = reductions_[action.stage];
    switch (action.op) {
      case Op::kStashWeights:
        weights.kept.insert(weights.newest);
        return true;
      case Op::kFreeWeights:
        return weights.kept.erase(weights.newest - action.age) > 0 ||
               fail(to_string(action) + " frees what is not kept");
      case Op::kStep:
        step(weights, action.micro);
        return true;
      case Op::kReduceBegin:
        if (weights.begun) return fail(to_string(action) + " begins twice");
        if (rounds.size() <= weights.rounds) rounds.resize(weights.rounds + 1);
        weights.begun = true;
        ++rounds[weights.rounds].begun;
        rounds[weights.rounds].sum.insert(weights.gradient.begin(), weights.gradient.end());
        return true;
      default:
        if (!weights.begun || weights.waited) return fail(to_string(action) + " of nothing begun");
        if (rounds[weights.rounds].begun != holders(action.stage)) return false;
        weights.sum = rounds[weights.rounds++].sum;
        weights.waited = true;
        return true;
    }
  }

  [[nodiscard]] int holders(int stage) const {
    return static_cast<int>(placement_.holders(stage).size());
  }

  void step(Weights& weights, int micro) {
    std::multiset<int> wanted;
    for (int i = weights.last + 1; i <= micro; ++i) wanted.insert(i);
    if (!weights.waited || wanted.empty() || weights.sum != wanted) {
      fail(cat("the step up to micro-batch ", micro, " has a gradient of others"));
    }
    weights.last = micro;
    ++weights.newest;
    weights.gradient.clear();
    weights.begun = weights.waited = false;
  }

  void check_end() {
    for (const auto& [place, weights] : weights_) {
      if (weights.last != micros_ - 1) fail(cat("P", place.first, " leaves micro-batches out"));
      if (!weights.kept.empty()) fail(cat("P", place.first, " keeps weights"));
    }
    for (const auto& [ends, channel] : channels_) {
      if (!channel.empty()) fail(cat("a message to P", ends.second, " is left over"));
    }
    for (const auto& [place, cell] : cells_) {
      if (cell.stash) fail(cat("P", std::get<0>(place), " keeps activations"));
    }
  }

  const Program& program_;
  const Placement& placement_;
  int stages_, micros_;
  Recomputed recomputed_;
  std::map<std::tuple<int, int, int>, Cell> cells_;              // by worker, stage, micro
  std::map<std::pair<int, int>, Weights> weights_;               // by worker and stage
  std::map<std::pair<int, int>, std::deque<Message>> channels_;  // by ends
  std::map<int, std::vector<Reduction>> reductions_;             // by stage, then round
  std::string fault_;
};

}  // namespace

std::string interpret(const Program& program) { return Interpreter(program).run(); }

}  // namespace chimera
