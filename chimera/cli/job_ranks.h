// How many ranks a mode has: the processes of a job, or threads.
#pragma once

#include <algorithm>
#include <optional>
#include <thread>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/runtime/launched_process.h"

namespace chimera {

[[nodiscard]] inline int cores() {
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

// The job of which this process is one of several, if any.
[[nodiscard]] inline std::optional<LaunchedProcess> job_of_many() {
  auto process = launched_process();
  if (process && process->size < 2) process.reset();
  return process;
}

// Of a mode that is one process. Throws Error (kUsage) in a job of several.
inline void refuse_job_of_many(std::string_view mode) {
  const auto job = job_of_many();
  if (!job) return;
  throw Error(ErrorCode::kUsage, cat("chimera ", mode, " is one process, but ", job->launcher,
                                     " started ", job->size, "; run it without"));
}

// Of a job of several processes, each is a rank. Throws Error (kUsage) where --ranks says another
// number.
[[nodiscard]] inline int ranks_of_job(const LaunchedProcess& process,
                                      const std::optional<int>& ranks) {
  if (!ranks || *ranks == process.size) return process.size;
  throw Error(ErrorCode::kUsage, cat("--ranks is ", *ranks, ", but ", process.launcher, " started ",
                                     process.size, " processes; leave it out"));
}

}  // namespace chimera
