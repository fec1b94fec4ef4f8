#include "chimera/transport/local_sums.h"

#include <algorithm>
#include <utility>

#include "chimera/base/check.h"
#include "chimera/base/clock.h"
#include "chimera/base/text.h"
#include "chimera/transport/deadline.h"
#include "chimera/transport/sum.h"

namespace chimera {
namespace {

// Long enough that taking one costs nothing beside adding it up, short enough to share out.
constexpr std::size_t kChunk = 64 * 1024;  // elements

std::string describe(int rank, DType dtype, std::size_t elements, std::span<const int> members) {
  return cat("rank ", rank, " gave ", elements, " elements of ", info(dtype).name,
             " over the ranks ", join(members));
}

}  // namespace

struct LocalSums::Sum {
  Tag tag;
  DType dtype;
  std::size_t elements;
  std::vector<int> members;         // ascending
  int opener;                       // the member that came first
  std::vector<std::byte*> buffers;  // by place in `members`
  std::vector<bool> joined;         // by place in `members`
  std::size_t missing;              // members that have not come
  std::size_t chunks;
  std::size_t taken = 0;     // chunks given out
  std::size_t finished = 0;  // chunks added up
  bool left = false;         // a member has gone before the end
  double done_s = 0;         // when it was done

  [[nodiscard]] bool done() const { return missing == 0 && finished == chunks; }
  void note_time() {
    if (done()) done_s = now_s();
  }
  [[nodiscard]] std::size_t place(int rank) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(members, rank) - members.begin());
  }
  [[nodiscard]] bool has_joined(int rank) const { return joined[place(rank)]; }
};

// What a member holds of a sum.
class LocalSums::Member final : public Reduction {
 public:
  Member(LocalSums& sums, std::shared_ptr<Sum> sum, int rank)
      : sums_(sums), sum_(std::move(sum)), rank_(rank) {}
  ~Member() override { sums_.leave(*sum_, rank_); }
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  bool wait(double wait_s) override { return sums_.wait(*sum_, rank_, wait_s); }
  double done_s() const override { return sum_->done_s; }

 private:
  LocalSums& sums_;
  const std::shared_ptr<Sum> sum_;
  const int rank_;
};

LocalSums::LocalSums(int ranks, const AbortReason& aborted)
    : aborted_(aborted), wakes_(static_cast<std::size_t>(ranks)) {}

LocalSums::~LocalSums() {
  {
    const Lock lock(mutex_);
    stop_ = true;
  }
  work_.notify_one();
  if (reducer_.joinable()) reducer_.join();
}

std::unique_ptr<Reduction> LocalSums::begin(int rank, Buffer buffer, std::span<const int> members,
                                            Tag tag) {
  CHECK(std::ranges::is_sorted(members) && std::ranges::binary_search(members, rank) &&
        members.front() >= 0 && static_cast<std::size_t>(members.back()) < wakes_.size());
  const Lock lock(mutex_);
  aborted_.throw_if_set();
  if (members.size() > 1 && !reducer_.joinable()) {
    reducer_ = std::thread([this] { reduce_until_stopped(); });
  }
  std::shared_ptr<Sum> sum = find_or_open(rank, buffer, members, tag);
  auto member = std::make_unique<Member>(*this, sum, rank);
  join(*sum, rank, buffer.data);
  if (sum->missing > 0) return member;
  close(*sum);
  sum->note_time();
  if (sum->done()) {  // nothing to add
    wake_members(*sum);
    return member;
  }
  if (sum->chunks > 1) wake_members(*sum);  // those that wait can help
  complete_.push_back(std::move(sum));
  work_.notify_one();
  return member;
}

// The oldest sum with these members and this tag that waits for `rank`, or a new one.
std::shared_ptr<LocalSums::Sum> LocalSums::find_or_open(int rank, Buffer buffer,
                                                        std::span<const int> members, Tag tag) {
  const auto is_member = [&](int other) { return std::ranges::binary_search(members, other); };
  for (const std::shared_ptr<Sum>& sum : open_) {
    if (sum->tag != tag || std::ranges::none_of(sum->members, is_member)) continue;
    const bool same_members = std::ranges::equal(sum->members, members);
    if (same_members && sum->has_joined(rank)) continue;
    if (same_members && sum->dtype == buffer.dtype && sum->elements == buffer.elements) return sum;
    throw Error(ErrorCode::kPeer,
                cat("the sum with tag ", tag, " differs between its members: ",
                    describe(sum->opener, sum->dtype, sum->elements, sum->members), ", but ",
                    describe(rank, buffer.dtype, buffer.elements, members),
                    "; all must agree, so check that every rank runs the same model and layout"));
  }
  const std::size_t count = members.size();
  return open_.emplace_back(std::make_shared<Sum>(
      Sum{.tag = tag,
          .dtype = buffer.dtype,
          .elements = buffer.elements,
          .members = {members.begin(), members.end()},
          .opener = rank,
          .buffers = std::vector<std::byte*>(count),
          .joined = std::vector<bool>(count),
          .missing = count,
          .chunks = count == 1 ? 0 : (buffer.elements + kChunk - 1) / kChunk}));
}

void LocalSums::join(Sum& sum, int rank, std::byte* data) {
  const std::size_t place = sum.place(rank);
  sum.buffers[place] = data;
  sum.joined[place] = true;
  --sum.missing;
}

void LocalSums::close(const Sum& sum) {
  std::erase_if(open_, [&](const std::shared_ptr<Sum>& open) { return open.get() == &sum; });
}

void LocalSums::wake_members(const Sum& sum) {
  for (const int member : sum.members) wakes_[static_cast<std::size_t>(member)].notify_one();
}

// Adds up the next chunk, with the lock released meanwhile; false if there is none to take.
bool LocalSums::take_chunk(Sum& sum, Lock& lock) {
  if (sum.missing > 0 || sum.left || sum.taken == sum.chunks || aborted_.is_set()) return false;
  const std::size_t begin = kChunk * sum.taken++;
  lock.unlock();
  sum_elements(sum.dtype, sum.buffers, begin, std::min(begin + kChunk, sum.elements));
  lock.lock();
  ++sum.finished;
  sum.note_time();
  if (sum.done() || sum.left) wake_members(sum);
  return true;
}

bool LocalSums::wait(Sum& sum, int rank, double wait_s) {
  const Clock::time_point deadline = deadline_after(wait_s);
  Lock lock(mutex_);
  for (;;) {
    aborted_.throw_if_set();
    if (sum.done()) return true;
    if (Clock::now() >= deadline) return false;
    if (take_chunk(sum, lock)) continue;
    wakes_[static_cast<std::size_t>(rank)].wait_until(lock, deadline);
  }
}

void LocalSums::leave(Sum& sum, int rank) noexcept {
  Lock lock(mutex_);
  if (sum.done()) return;
  sum.left = true;
  close(sum);
  const auto untouched = [&] { return sum.taken == sum.finished; };
  wakes_[static_cast<std::size_t>(rank)].wait(lock, untouched);
}

void LocalSums::wake_all() noexcept {
  const Lock lock(mutex_);  // nobody is between looking at the reason and falling asleep
  for (std::condition_variable& wake : wakes_) wake.notify_one();
}

void LocalSums::reduce_until_stopped() {
  Lock lock(mutex_);
  while (!stop_) {
    if (complete_.empty()) {
      work_.wait(lock);
      continue;
    }
    const std::shared_ptr<Sum> oldest = complete_.front();
    if (!take_chunk(*oldest, lock)) complete_.pop_front();
  }
}

}  // namespace chimera
