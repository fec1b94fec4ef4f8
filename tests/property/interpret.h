// interpret: runs a program on symbols and says what is wrong with what it computes. Made from the
// meaning of each action alone, without verify's rules, so that the two can be compared: what
// computes something wrong must have a violation (not the other way: verify also refuses what is
// superfluous).
#pragma once

#include <string>

#include "chimera/schedule/schedule.h"

namespace chimera {

// What went wrong first, or "": the program ends, every step of every stage is made of the
// gradients of all micro-batches that it says and no other, each once, each computed from its
// inputs with the weights of its forward, and nothing is left over.
[[nodiscard]] std::string interpret(const Program& program);

}  // namespace chimera
