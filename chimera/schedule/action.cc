#include "chimera/schedule/action.h"

#include "chimera/base/text.h"

namespace chimera {

std::string to_string(const Action& action) {
  if (action.op == Op::kStep) return std::string(info(action.op).letter);
  std::string word = cat(action.stage, info(action.op).letter);
  if (action.op == Op::kReduceBegin || action.op == Op::kReduceWait) return word;
  word += cat(action.micro);
  if (action.span != 1) word += cat('+', int{action.span});
  if (action.pipe != 0) word += cat('@', action.pipe);
  return word;
}

}  // namespace chimera
