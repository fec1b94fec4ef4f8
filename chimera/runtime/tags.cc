#include "chimera/runtime/tags.h"

#include "chimera/base/text.h"

namespace chimera {

std::string describe_tag(Tag tag) {
  if (tag == kStepTag) return "sum of losses and norms";
  if (tag == kTimesTag) return "times of a step";
  if (tag == kWeightsTag) return "weights";
  if (tag == kAgreementTag) return "facts to agree on";
  if (tag == kClockTag) return "time of a clock";
  if (tag == kReplicaTag) return "digests of weights";
  if (tag == kOutcomeTag) return "summary of a rank";
  if (tag == kCheckpointTag) return "news of a checkpoint";
  if (tag == kCheckpointFilesTag) return "files of a checkpoint";
  if (tag == kCheckpointBeatTag) return "progress of a checkpoint";
  if ((tag & (Tag{1} << 62)) != 0) {
    const Tag first = (tag >> 40) & 0xFFFFF, last = (tag >> 20) & 0xFFFFF;
    return first == last ? cat("gradients of stage ", first)
                         : cat("gradients shared by stages ", first, " to ", last);
  }
  const bool is_gradient = (tag >> 63) != 0;
  return cat(is_gradient ? "gradient" : "activation", " of micro-batch ", tag & 0xFFFFFFFF,
             " for stage ", (tag >> 32) & 0x7FFFFFFF);
}

}  // namespace chimera
