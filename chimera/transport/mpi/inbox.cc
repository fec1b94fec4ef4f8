#include "chimera/transport/mpi/inbox.h"

#include <algorithm>
#include <utility>

#include "chimera/transport/mpi/call.h"

namespace chimera {
namespace {

constexpr std::size_t kSlots = 16;

}  // namespace

MpiInbox::MpiInbox(MpiEngine& engine, MPI_Comm comm, std::size_t longest_bytes, Take take)
    : engine_(engine), comm_(comm), take_(std::move(take)), slots_(kSlots) {
  for (std::size_t i = 0; i < kSlots; ++i) {
    slots_[i].bytes = std::make_shared<std::vector<std::byte>>(longest_bytes);
    post(i);
  }
}

void MpiInbox::post(std::size_t index) {
  Slot& slot = slots_[index];
  slot.ready = false;
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Irecv(slot.bytes->data(), static_cast<int>(slot.bytes->size()), MPI_BYTE,
                      MPI_ANY_SOURCE, kShortTag, comm_, &request),
            "post a receive");
  engine_.requests().add(
      request, MpiRequests::Use::kStanding, this,
      [this, index, keep = slot.bytes](const MPI_Status& status) { arrived(index, status); });
}

void MpiInbox::arrived(std::size_t index, const MPI_Status& status) {
  int length = 0;
  MPI_Get_count(&status, MPI_BYTE, &length);
  slots_[index].length = static_cast<std::size_t>(std::max(length, 0));
  slots_[index].from = status.MPI_SOURCE;
  slots_[index].ready = true;
  while (slots_[next_].ready) {
    const Slot& slot = slots_[next_];
    const std::size_t taken = std::exchange(next_, (next_ + 1) % kSlots);
    take_({slot.bytes->data(), slot.length}, slot.from);
    post(taken);
  }
}

void send_short(MpiEngine& engine, MPI_Comm comm, std::shared_ptr<std::vector<std::byte>> bytes,
                int to, const void* owner) {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Isend(bytes->data(), static_cast<int>(bytes->size()), MPI_BYTE, to, kShortTag, comm,
                      &request),
            "send");
  int gone = 0;
  check_mpi(MPI_Test(&request, &gone, MPI_STATUS_IGNORE), "send");
  if (gone != 0) return;
  engine.requests().add(request, MpiRequests::Use::kSend, owner,
                        [bytes = std::move(bytes)](const MPI_Status&) {});
}

}  // namespace chimera
