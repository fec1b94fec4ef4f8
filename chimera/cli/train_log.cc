#include "chimera/cli/train_log.h"

#include <nlohmann/json.hpp>
#include <ostream>

#include "chimera/base/error.h"
#include "chimera/base/text.h"

namespace chimera {

StepLog::StepLog(const std::string& path, bool goes_on) : path_(path), begins_anew_(!goes_on) {
  if (path.empty()) return;
  file_.open(path, std::ios::binary | std::ios::app);
  check();
}

void StepLog::write(const StepLine& line) {
  if (path_.empty()) return;
  const nlohmann::ordered_json object = {{"step", line.step},
                                         {"loss", line.loss},
                                         {"gradient_norm", line.gradient_norm},
                                         {"learning_rate", line.learning_rate},
                                         {"tokens_per_s", line.tokens_per_s},
                                         {"bubble_ratio", line.bubble_ratio},
                                         {"predicted_bubble_ratio", line.predicted_bubble_ratio},
                                         {"seconds", line.seconds}};
  if (begins_anew_) {
    file_.close();
    file_.open(path_, std::ios::binary | std::ios::trunc);
    begins_anew_ = false;
  }
  file_ << object.dump() << std::endl;
  check();
}

void StepLog::check() const {
  if (file_) return;
  throw Error(ErrorCode::kIo, cat("cannot write the log '", path_,
                                  "'; is its folder there and writable, and the disk not full?"));
}

}  // namespace chimera
