#include "chimera/transport/mpi/requests.h"

#include <algorithm>
#include <utility>

#include "chimera/transport/mpi/call.h"

namespace chimera {

void MpiRequests::add(MPI_Request request, Use use, const void* owner, Done done) {
  handles_.push_back(request);
  operations_.push_back({.use = use, .owner = owner, .done = std::move(done)});
  if (use != Use::kStanding) ++work_;
}

bool MpiRequests::poll(const OnError& on_error) {
  if (handles_.empty()) return false;
  ended_.resize(handles_.size());
  statuses_.resize(handles_.size());
  int count = 0;
  const int code = MPI_Testsome(static_cast<int>(handles_.size()), handles_.data(), &count,
                                ended_.data(), statuses_.data());
  if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) {
    on_error("MPI could not test its operations: " + mpi_error_text(code));
    return false;
  }
  if (count == MPI_UNDEFINED || count == 0) return false;
  // What is done may add operations: take all that ended out first.
  std::vector<std::pair<Operation, MPI_Status>> ended;
  for (int i = 0; i < count; ++i) {
    const auto index = static_cast<std::size_t>(ended_[static_cast<std::size_t>(i)]);
    MPI_Status status = statuses_[static_cast<std::size_t>(i)];
    if (code == MPI_SUCCESS) status.MPI_ERROR = MPI_SUCCESS;  // else MPI does not set it
    ended.emplace_back(std::move(operations_[index]), status);
  }
  std::sort(ended_.begin(), ended_.begin() + count, std::greater<>());
  std::for_each(ended_.begin(), ended_.begin() + count,
                [this](int index) { take_out(static_cast<std::size_t>(index)); });
  for (const auto& [operation, status] : ended) {
    if (operation.use != Use::kStanding) --work_;
  }
  for (auto& [operation, status] : ended) {
    if (operation.withdrawn) continue;
    try {
      check_mpi(status.MPI_ERROR, "move a message");
      operation.done(status);
    } catch (const std::exception& error) {
      on_error(error.what());
    }
  }
  return true;
}

void MpiRequests::take_out(std::size_t index) {
  handles_[index] = handles_.back();
  handles_.pop_back();
  if (index + 1 < operations_.size()) operations_[index] = std::move(operations_.back());
  operations_.pop_back();
}

std::size_t MpiRequests::count(const void* owner) const {
  return static_cast<std::size_t>(
      std::ranges::count(operations_, owner, [](const Operation& op) { return op.owner; }));
}

void MpiRequests::cancel(const void* owner) {
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    Operation& operation = operations_[i];
    if ((owner != nullptr && operation.owner != owner) || operation.withdrawn) continue;
    operation.withdrawn = true;
    if (operation.use != Use::kSend) MPI_Cancel(&handles_[i]);
  }
}

}  // namespace chimera
