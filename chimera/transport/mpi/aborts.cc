#include "chimera/transport/mpi/aborts.h"

#include <algorithm>
#include <utility>

#include "chimera/base/clock.h"
#include "chimera/transport/mpi/call.h"

namespace chimera {
namespace {

constexpr std::size_t kLongestText = 4000;  // the rest is cut off
constexpr double kAnswerSeconds = 1;
constexpr int kTextTag = 0;

}  // namespace

MpiAborts::MpiAborts(MpiEngine& engine, MPI_Comm comm, AbortReason& reason)
    : engine_(engine), comm_(comm), reason_(reason) {
  MPI_Comm_rank(comm, &rank_);
  MPI_Comm_size(comm, &size_);
  listen();
}

void MpiAborts::listen() {
  heard_ = std::make_shared<std::string>(kLongestText, '\0');
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Irecv(heard_->data(), static_cast<int>(kLongestText), MPI_CHAR, MPI_ANY_SOURCE,
                      kTextTag, comm_, &request),
            "listen for aborts");
  engine_.requests().add(request, MpiRequests::Use::kStanding, this,
                         [this, keep = heard_](const MPI_Status& status) {
                           int length = 0;
                           MPI_Get_count(&status, MPI_CHAR, &length);
                           keep->resize(static_cast<std::size_t>(std::max(length, 0)));
                           hear();
                         });
}

// A wish of another rank if this one is rank 0; else what was decided.
void MpiAborts::hear() {
  const std::string why = *heard_;
  listen();
  if (rank_ == 0) return decide(why);
  reason_.set(why);
}

void MpiAborts::ask(const std::string& why) {
  if (reason_.is_set() || answer_due_s_ > 0) return;
  if (rank_ == 0) return decide(why);
  asked_ = why;
  answer_due_s_ = now_s() + kAnswerSeconds;
  send(0, std::make_shared<const std::string>(why.substr(0, kLongestText)));
}

void MpiAborts::decide(const std::string& why) {
  if (reason_.is_set()) return;
  const auto text = std::make_shared<const std::string>(why.substr(0, kLongestText));
  reason_.set(*text);
  for (int to = 0; to < size_; ++to) {
    if (to != rank_) send(to, text);
  }
}

void MpiAborts::look() {
  if (answer_due_s_ == 0 || reason_.is_set() || now_s() < answer_due_s_) return;
  decide(asked_);
}

void MpiAborts::send(int to, std::shared_ptr<const std::string> why) {
  MPI_Request request = MPI_REQUEST_NULL;
  // What cannot be sent is not sent: there is nobody left to tell.
  if (MPI_Isend(why->data(), static_cast<int>(why->size()), MPI_CHAR, to, kTextTag, comm_,
                &request) != MPI_SUCCESS) {
    return;
  }
  engine_.requests().add(request, MpiRequests::Use::kSend, this,
                         [why = std::move(why)](const MPI_Status&) {});
}

}  // namespace chimera
