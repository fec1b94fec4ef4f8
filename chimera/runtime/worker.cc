#include "chimera/runtime/worker.h"

#include <algorithm>
#include <set>

#include "chimera/base/check.h"
#include "chimera/base/clock.h"
#include "chimera/base/text.h"
#include "chimera/runtime/tags.h"

namespace chimera {
namespace {

bool is_gradient(Op op) { return op == Op::kSendGradient || op == Op::kRecvGradient; }

// The stage that takes what a send or receive carries.
int taker(const Action& action) {
  return is_send(action.op) ? peer_stage(action) : int{action.stage};
}

}  // namespace

Worker::Worker(const Program& program, Seat seat, Stages stages, Transport& transport,
               WorkerOptions options)
    : program_(program),
      row_(program.rows.at(static_cast<std::size_t>(seat.worker))),
      seat_(seat),
      stages_(std::move(stages)),
      transport_(transport),
      options_(std::move(options)),
      recomputed_({row_}, program.source.stages(), program.source.micros) {
  refuse_unknown_actions();
  prepare_reductions();
}

std::vector<Interval> Worker::run_row(const Row& row) {
  std::vector<Interval> intervals;
  intervals.reserve(row.size());
  for (const Action& action : row) {
    const double start = now_s();
    try {
      if (options_.on_action) options_.on_action(action);
      run({&action, 1}, *this);
    } catch (const Error& error) {
      fail(action, error.code(), error.what());
    } catch (const std::exception& error) {
      fail(action, ErrorCode::kCompute, std::string(first_line(error.what())));
    }
    intervals.push_back({action, start, now_s()});
  }
  return intervals;
}

void Worker::fail(const Action& action, ErrorCode code, const std::string& why) {
  if (code == ErrorCode::kPeer) throw Error(code, why);  // has its place in front already
  std::string text = cat("rank ", transport_.rank(), ", worker ", seat_.worker);
  if (action.stage != kAllStages) text += cat(", stage ", action.stage);
  if (action.op < Op::kReduceBegin) text += cat(", micro-batch ", action.micro);
  text += cat(", ", info(action.op).name, ": ", why);
  transport_.abort(text);
  throw Error(code, text);
}

void Worker::refuse_unknown_actions() const {
  for (const Action& action : row_) {
    if (action.op != Op::kBackwardInput && action.op != Op::kBackwardWeight) continue;
    throw Error(ErrorCode::kUsage, cat("schedule ", program_.source.name, ": ", to_string(action),
                                       " on worker ", seat_.worker, " is a ", info(action.op).name,
                                       "; training runs whole backwards (B), not parts (I, W)"));
  }
}

// ---- computation

Message Worker::take(const Parcel& parcel) {
  auto node = mailbox_.extract(parcel);
  if (node.empty()) {
    throw Error(ErrorCode::kUsage, "its input is not there; verify the schedule to see why");
  }
  return std::move(node.mapped());
}

void Worker::forward(const Action& action) {
  for (int micro = action.micro; micro < action.micro + action.span; ++micro) {
    Message input;
    if (action.stage > 0) input = take({false, action.stage, micro});
    const ForwardUse use{action.age, recomputed_.contains(action.stage, micro)};
    Message output = stage(action).forward(micro, std::move(input), use);
    count_stash();
    if (output) mailbox_[{false, action.stage + 1, micro}] = std::move(output);
  }
}

void Worker::backward(const Action& action) {
  for (int micro = action.micro; micro < action.micro + action.span; ++micro) {
    Message gradient;
    if (action.stage + 1 < program_.source.stages()) gradient = take({true, action.stage, micro});
    Message input_gradient = stage(action).backward(micro, std::move(gradient));
    if (input_gradient) mailbox_[{true, action.stage - 1, micro}] = std::move(input_gradient);
  }
}

void Worker::recompute(const Action& action) {
  for (int micro = action.micro; micro < action.micro + action.span; ++micro) {
    stage(action).recompute(micro, action.age);
    count_stash();
  }
}

void Worker::count_stash() {
  int held = 0;
  for (const auto& [id, stage] : stages_) held += stage->in_flight();
  peak_stash_ = std::max(peak_stash_, held);
  if (options_.stash_bound > 0 && held > options_.stash_bound) {
    throw Error(ErrorCode::kCompute,
                cat("holds the activations of ", held, " micro-batches; the schedule's bound is ",
                    options_.stash_bound));
  }
}

// ---- messages

int Worker::peer_rank(const Action& action) const {
  const Placement& placement = program_.source.placement;
  return seat_.group * placement.workers() + placement.worker(action.pipe, peer_stage(action));
}

void Worker::send(const Action& action) {
  const bool gradient = is_gradient(action.op);
  transport_.send(take({gradient, taker(action), action.micro}), peer_rank(action),
                  message_tag(gradient, taker(action), action.micro));
}

void Worker::recv(const Action& action) {
  const bool gradient = is_gradient(action.op);
  auto message = transport_.recv(peer_rank(action),
                                 message_tag(gradient, taker(action), action.micro), kForever);
  mailbox_[{gradient, taker(action), action.micro}] = std::move(message.value());
}

// ---- reduction

// The ranks of all groups whose worker holds one of the stages.
std::vector<int> Worker::members(const std::vector<int>& stages) const {
  std::set<int> ranks;
  for (const int stage : stages) {
    for (const int worker : program_.source.placement.holders(stage)) {
      for (int group = 0; group < seat_.groups; ++group) {
        ranks.insert(group * program_.source.workers() + worker);
      }
    }
  }
  return {ranks.begin(), ranks.end()};
}

// Of the stages that this worker holds, the one whose reduction begins last: then all of them have
// made their last contribution to what they share.
int Worker::last_begun(const std::vector<int>& stages) const {
  for (std::size_t i = row_.size(); i-- > 0;) {
    if (row_[i].op != Op::kReduceBegin) continue;
    if (std::find(stages.begin(), stages.end(), row_[i].stage) != stages.end()) {
      return row_[i].stage;
    }
  }
  throw Error(ErrorCode::kUsage,
              cat("the row of worker ", seat_.worker, " never reduces stages ", join(stages)));
}

void Worker::prepare_reductions() {
  std::set<const std::byte*> seen;  // a shared buffer is named by several stages
  for (const auto& [id, stage] : stages_) {
    std::map<std::vector<int>, int> parts;  // so far, by the stages that share them
    for (const Gradient& gradient : stage->gradients()) {
      const bool is_new = seen.insert(gradient.buffer.data).second;
      add_buckets(gradient, is_new, parts[gradient.stages]);
    }
  }
}

// Counts the buckets of all gradients, since all members number them alike; keeps those that are
// new here and have someone to be summed with.
void Worker::add_buckets(const Gradient& gradient, bool is_new, int& index) {
  const std::vector<int> ranks = members(gradient.stages);
  const std::size_t bytes = info(gradient.buffer.dtype).bytes;
  const std::size_t most = std::max<std::size_t>(1, options_.bucket_bytes / bytes);
  for (std::size_t begin = 0; begin < gradient.buffer.elements; begin += most) {
    const Tag tag = reduce_tag(gradient.stages.front(), gradient.stages.back(), index++);
    if (!is_new || (ranks.size() == 1 && !options_.sums_alone)) continue;
    const Buffer bucket{gradient.buffer.dtype, gradient.buffer.data + begin * bytes,
                        std::min(most, gradient.buffer.elements - begin)};
    reductions_[last_begun(gradient.stages)].push_back({bucket, ranks, tag, nullptr});
  }
}

void Worker::reduce_begin(const Action& action) {
  begun_s_[action.stage] = now_s();
  for (Reduced& bucket : reductions_[action.stage]) {
    bucket.reduction = transport_.all_reduce_sum(bucket.buffer, bucket.members, bucket.tag);
  }
}

void Worker::reduce_wait(const Action& action) {
  double done_s = begun_s_[action.stage];
  for (Reduced& bucket : reductions_[action.stage]) {
    finish(*bucket.reduction);
    done_s = std::max(done_s, bucket.reduction->done_s());
    bucket.reduction.reset();
  }
  if (reductions_[action.stage].empty()) return;
  const Action begin{.op = Op::kReduceBegin, .stage = action.stage};
  reduced_.push_back({begin, begun_s_[action.stage], done_s});
}

// ---- weights

void Worker::stash_weights(const Action& action) { stage(action).stash_weights(); }

void Worker::free_weights(const Action& action) { stage(action).free_weights(action.age); }

void Worker::step(const Action& action) {
  if (options_.step) options_.step(action);
}

}  // namespace chimera
