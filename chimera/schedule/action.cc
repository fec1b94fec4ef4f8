#include "chimera/schedule/action.h"

#include "chimera/base/text.h"

namespace chimera {

std::string to_string(const Action& action) {
  if (action.op == Op::kStep && action.stage == kAllStages) return "STEP";
  std::string word = cat(action.stage, info(action.op).letter);
  if (!is_update(action.op) || action.op == Op::kStep) word += cat(action.micro);
  if (action.span != 1) word += cat('+', int{action.span});
  if (action.pipe != 0) word += cat('@', action.pipe);
  if (action.age != 0) word += cat('~', action.age);
  return word;
}

}  // namespace chimera
