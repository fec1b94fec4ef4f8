// The one exception type for what a user or the world did wrong.
//
// A message is one sentence in four parts where they apply: what failed, the value seen, what was
// expected, what to try. It is caught once, in main, which prints it and exits with exit_code().
// Bugs of our own are CHECK's business (check.h); findings about a schedule are data (verify.h).
#pragma once

#include <stdexcept>
#include <string>

namespace chimera {

enum class ErrorCode {
  kUsage,    // a bad option, configuration value or schedule file
  kData,     // a text, token file or weight file that cannot be used
  kIo,       // the file system said no
  kTimeout,  // a wait passed its limit
  kPeer,     // another rank failed; the text is that rank's
  kCompute,  // a stage, or what it calls, threw
};

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& what) : std::runtime_error(what), code_(code) {}
  [[nodiscard]] ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

// The process exit code for an error: 2 for usage, 3 for data and files, 4 for failures of a run.
[[nodiscard]] constexpr int exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage:
      return 2;
    case ErrorCode::kData:
    case ErrorCode::kIo:
      return 3;
    case ErrorCode::kTimeout:
    case ErrorCode::kPeer:
    case ErrorCode::kCompute:
      return 4;
  }
  return 1;
}

}  // namespace chimera
