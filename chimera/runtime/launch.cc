#include "chimera/runtime/launch.h"

#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/runtime/tags.h"
#include "chimera/transport/local.h"

namespace chimera {
namespace {

// The first error that is a rank's own; what others threw because of it tells less.
class FirstError {
 public:
  void add(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (!first_ || (first_->code() == ErrorCode::kPeer && error.code() != ErrorCode::kPeer)) {
      first_ = error;
    }
  }
  // The text is that of the first abort, which is what all ranks saw.
  void rethrow(const std::string& aborted) const {
    if (first_) throw Error(first_->code(), aborted.empty() ? first_->what() : aborted);
  }

 private:
  std::mutex mutex_;
  std::optional<Error> first_;
};

}  // namespace

void launch_local(int ranks, const CheckedOptions& options,
                  const std::function<void(Transport&)>& body) {
  LocalWorld world(ranks);
  FirstError first;
  const auto run_rank = [&](int rank) {
    const auto transport = checked(world.transport(rank), options);
    try {
      body(*transport);
    } catch (const Error& error) {
      transport->abort(error.what());
      first.add(error);
    } catch (const std::exception& error) {
      const std::string why = cat("rank ", rank, ": ", first_line(error.what()));
      transport->abort(why);
      first.add(Error(ErrorCode::kCompute, why));
    }
  };
  std::vector<std::thread> threads;
  try {
    for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(run_rank, rank);
  } catch (const std::system_error& error) {
    const std::string why = cat("started ", threads.size(), " of ", ranks,
                                " threads, one a worker; the system allows no more (",
                                error.code().message(), "), use fewer workers");
    first.add(Error(ErrorCode::kCompute, why));
    world.abort(why);
  }
  for (std::thread& thread : threads) thread.join();
  first.rethrow(world.aborted());
}

void launch_threads(int ranks, const LaunchOptions& options,
                    const std::function<void(const Rank&)>& body) {
  launch_local(ranks, {.limit_s = options.limit_s, .describe = describe_tag},
               [&](Transport& transport) {
                 body({transport, {}});
               });
}

void launch_process(const LaunchOptions&, const std::function<void(const Rank&)>&) {
  throw Error(
      ErrorCode::kUsage,
      "this program is built without MPI; set pipeline.transport=local and start one process");
}

}  // namespace chimera
