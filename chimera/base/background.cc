#include "chimera/base/background.h"

#include <chrono>
#include <system_error>
#include <utility>

#include "chimera/base/clock.h"
#include "chimera/base/error.h"
#include "chimera/base/text.h"

namespace chimera {
namespace {

struct Cancelled {};

}  // namespace

Background::Background(std::string what, double stall_limit_s, Work work)
    : what_(std::move(what)), stall_limit_s_(stall_limit_s), progressed_s_(now_s()) {
  try {
    thread_ = std::thread([this, work = std::move(work)] { run(work); });
  } catch (const std::system_error& error) {
    throw Error(ErrorCode::kCompute, cat("cannot start a thread for ", what_, ": ", error.what()));
  }
}

Background::~Background() {
  cancelled_ = true;
  thread_.join();
}

void Background::run(const Work& work) {
  std::exception_ptr failed;
  try {
    work([this] {
      if (cancelled_) throw Cancelled();
      const std::lock_guard lock(mutex_);
      progressed_s_ = now_s();
    });
  } catch (const Cancelled&) {
  } catch (...) {
    failed = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  failed_ = failed;
  done_ = true;
  changed_.notify_all();
}

bool Background::wait(double wait_s) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::duration<double>(wait_s), [this] { return done_; });
  if (failed_) std::rethrow_exception(failed_);
  if (done_) return true;
  if (const double idle_s = now_s() - progressed_s_; idle_s > stall_limit_s_) {
    throw Error(ErrorCode::kTimeout, cat(what_, " made no progress for ", idle_s,
                                         " s; the disk hangs, or is slower than the limit"));
  }
  return false;
}

}  // namespace chimera
