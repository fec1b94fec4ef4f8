// A free schedule is drawn as one order of all workers' actions, each of which is possible when it
// comes, and then cut into rows: so it can run. A message is taken from its channel by the
// computation that needs it, so an action is possible only when its message is the first in the
// channel. Some action always is:
//
//   - Without steps, whoever needs the first message of a channel needs nothing else that waits.
//   - Steps come after the same micro-batches (rounds) on all stages, on all holders at a time, and
//     a backward of a stage waits for the step that ends the round before its own. Of the backwards
//     that so hold up a channel, take that whose message was sent first. The step that it waits for
//     waits for other backwards of the stage, whose messages were sent before (the stage above had
//     stepped) and are held up by a message sent even earlier: a contradiction.
#include "random_schedule.h"

#include <rapidcheck.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "chimera/base/check.h"
#include "chimera/schedule/recompute.h"

namespace chimera {
namespace {

bool coin() { return pick(2) == 1; }

template <class T>
const T& one_of(const std::vector<T>& values) {
  return values[static_cast<std::size_t>(pick(static_cast<int>(values.size())))];
}

Placement random_placement() {
  const int stages = 1 + pick(4), workers = 1 + pick(4), pipes = 1 + pick(3);
  std::vector<std::vector<int>> map(static_cast<std::size_t>(pipes));
  for (auto& pipe : map) {
    for (int stage = 0; stage < stages; ++stage) pipe.push_back(pick(workers));
  }
  return Placement(std::move(map));
}

class Drawing {
 public:
  Drawing() {
    schedule_.name = "free";
    schedule_.placement = random_placement();
    schedule_.micros = 1 + pick(6);
    schedule_.rows.resize(static_cast<std::size_t>(schedule_.workers()));
    stepped_ = coin();
    for (int micro = 0; micro < schedule_.micros; ++micro) draw_micro(micro);
    if (stepped_) draw_rounds();
  }

  Schedule run() {
    while (!open_.empty() || (stepped_ && !all_stepped())) {
      std::vector<Action> possible;
      std::copy_if(open_.begin(), open_.end(), std::back_inserter(possible),
                   [&](const Action& action) { return is_possible(action); });
      for (int stage = 0; stage < schedule_.stages(); ++stage) add_step(stage, possible);
      CHECK(!possible.empty());
      perform(one_of(possible));
    }
    return std::move(schedule_);
  }

 private:
  using Message = std::tuple<bool, int, int>;  // activation, receiving stage, micro

  void draw_micro(int micro) {
    const int pipe = pick(schedule_.pipes());
    for (int stage = 0; stage < schedule_.stages(); ++stage) {
      const auto open = [&](Op op) {
        open_.push_back({.op = op,
                         .stage = static_cast<std::int16_t>(stage),
                         .pipe = static_cast<std::int16_t>(pipe),
                         .micro = micro});
      };
      open(Op::kForward);
      if (pick(4) == 1) open(Op::kRecompute);
      if (coin()) {
        open(Op::kBackward);
      } else {
        open(Op::kBackwardInput);
        open(Op::kBackwardWeight);
      }
    }
  }

  void draw_rounds() {
    for (int micro = 0; micro + 1 < schedule_.micros; ++micro) {
      if (coin()) round_ends_.push_back(micro);
    }
    round_ends_.push_back(schedule_.micros - 1);
  }

  [[nodiscard]] int round_of(int micro) const {
    return static_cast<int>(std::lower_bound(round_ends_.begin(), round_ends_.end(), micro) -
                            round_ends_.begin());
  }

  [[nodiscard]] bool all_stepped() {
    for (int stage = 0; stage < schedule_.stages(); ++stage) {
      if (steps_[stage] != static_cast<int>(round_ends_.size())) return false;
    }
    return true;
  }

  [[nodiscard]] bool is_open(Op op, int stage, int micro) const {
    return std::any_of(open_.begin(), open_.end(), [&](const Action& action) {
      return action.op == op && action.stage == stage && action.micro == micro;
    });
  }

  [[nodiscard]] int worker_of(const Action& action, int stage) const {
    return schedule_.placement.worker(action.pipe, stage);
  }

  // Whether what another stage sends is there: done on the same worker, or first in the channel.
  [[nodiscard]] bool has(bool activation, const Action& action, int from) {
    if (from < 0 || from == schedule_.stages()) return true;
    const int sender = worker_of(action, from), receiver = worker_of(action, action.stage);
    const Message message{activation, action.stage, action.micro};
    if (sender == receiver) return local_.contains(message);
    const auto& channel = channels_[{sender, receiver}];
    return !channel.empty() && channel.front() == message;
  }

  [[nodiscard]] bool is_possible(const Action& action) {
    const int stage = action.stage, micro = action.micro;
    if (action.op == Op::kForward) return has(true, action, stage - 1);
    if (is_open(Op::kForward, stage, micro)) return false;
    if (action.op == Op::kRecompute) return true;
    if (action.op == Op::kBackwardWeight) return !is_open(Op::kBackwardInput, stage, micro);
    if (stepped_ && round_of(micro) != steps_[stage]) return false;
    return !is_open(Op::kRecompute, stage, micro) && has(false, action, stage + 1);
  }

  void add_step(int stage, std::vector<Action>& possible) {
    const auto round = static_cast<std::size_t>(steps_[stage]);
    if (round >= round_ends_.size()) return;
    for (const Action& action : open_) {
      if (action.stage == stage && contributes(action.op) && action.micro <= round_ends_[round]) {
        return;
      }
    }
    possible.push_back(
        {.op = Op::kStep, .stage = static_cast<std::int16_t>(stage), .micro = round_ends_[round]});
  }

  void perform(Action action) {
    if (action.op == Op::kStep) {
      ++steps_[action.stage];
      for (const int holder : schedule_.placement.holders(action.stage)) put(holder, action);
      return;
    }
    open_.erase(std::find(open_.begin(), open_.end(), action));
    take_and_send(action);
    int& version = versions_[{action.stage, action.micro}];
    const int newest = steps_[action.stage];
    if (action.op == Op::kForward) version = newest - std::min(newest, pick(3));
    action.age = static_cast<std::int16_t>(newest - version);
    put(worker_of(action, action.stage), action);
  }

  void take_and_send(const Action& action) {
    const bool activation = action.op == Op::kForward;
    if (!activation && !yields_gradient(action.op)) return;
    const int step = activation ? 1 : -1, worker = worker_of(action, action.stage);
    const int before = action.stage - step, after = action.stage + step;
    const auto exists = [&](int stage) { return stage >= 0 && stage < schedule_.stages(); };
    if (exists(before) && worker_of(action, before) != worker) {
      channels_[{worker_of(action, before), worker}].pop_front();
    }
    if (!exists(after)) return;
    const Message message{activation, after, action.micro};
    if (worker_of(action, after) == worker) {
      local_.insert(message);
    } else {
      channels_[{worker, worker_of(action, after)}].push_back(message);
    }
  }

  void put(int worker, const Action& action) {
    schedule_.rows[static_cast<std::size_t>(worker)].push_back(action);
  }

  Schedule schedule_;
  bool stepped_ = false;
  std::vector<Action> open_;                     // still to come
  std::vector<int> round_ends_;                  // the last micro-batch of each round
  std::map<int, int> steps_;                     // done, by stage
  std::map<std::pair<int, int>, int> versions_;  // that the forward read, by stage and micro
  std::map<std::pair<int, int>, std::deque<Message>> channels_;
  std::set<Message> local_;
};

std::size_t any_index(std::size_t size) {
  return static_cast<std::size_t>(pick(static_cast<int>(size)));
}

// Of what changes weights as often as of all the rest.
std::size_t any_position(const Row& row) {
  std::vector<std::size_t> updates;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (is_update(row[i].op)) updates.push_back(i);
  }
  return coin() && !updates.empty() ? one_of(updates) : any_index(row.size());
}

auto place(Row& row, std::size_t i) { return row.begin() + static_cast<std::ptrdiff_t>(i); }

void change(Action& action, const Schedule& source) {
  const auto other = [](auto& value, int count) {
    value = static_cast<std::remove_reference_t<decltype(value)>>(pick(count));
  };
  switch (pick(6)) {
    case 0:
      return other(action.stage, source.stages());
    case 1:
      return other(action.micro, source.micros);
    case 2:
      return other(action.pipe, source.pipes());
    case 3:
      return other(action.age, 4);
    case 4:
      action.span = static_cast<std::uint8_t>(1 + pick(3));
      return;
    default:
      action.op = static_cast<Op>(pick(static_cast<int>(kOps.size())));
  }
}

}  // namespace

int pick(int count) {
  // Of the whole range whatever RapidCheck's size.
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(0, count));
}

Schedule generated_schedule() {
  const auto all = generators();
  const Generator& generator = all[any_index(all.size())];
  Spec spec{.stages = 1 + pick(6)};
  if (generator.even_stages) spec.stages += spec.stages % 2;
  spec.micros = 1 + pick(3 * spec.stages);
  const int half = spec.stages / 2;
  if (generator.paired && coin()) spec.pairs = half % 2 == 0 && coin() ? half / 2 : half;
  if (generator.methods && coin()) spec.method = static_cast<Method>(pick(3));
  spec.fused = spec.method == Method::kDoubling && coin();
  if (generator.asynchronous && coin()) spec.steps = 1 + pick(3);
  std::vector<bool> recomputed(static_cast<std::size_t>(spec.stages));
  std::generate(recomputed.begin(), recomputed.end(), [] { return pick(3) == 1; });
  return with_recompute(generate(generator.name, spec), recomputed);
}

Schedule free_schedule() { return Drawing().run(); }

void damage(Rows& rows, const Schedule& source) {
  Row& row = rows[any_index(rows.size())];
  if (row.empty()) return;
  const std::size_t i = any_position(row);
  const Action action = row[i];
  Row& other = coin() ? row : rows[any_index(rows.size())];
  switch (pick(6)) {
    case 0:
      row.erase(place(row, i));
      return;
    case 1:
      other.insert(place(other, any_index(other.size() + 1)), action);
      return;
    case 2:
      std::swap(row[i], row[any_index(row.size())]);
      return;
    case 3:
      row.erase(place(row, i));
      other.insert(place(other, any_index(other.size() + 1)), action);
      return;
    case 4:
      if (i + 1 < row.size()) std::swap(row[i], row[i + 1]);
      return;
    default:
      change(row[i], source);
  }
}

}  // namespace chimera
