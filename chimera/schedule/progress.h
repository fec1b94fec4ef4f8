// Whether all rows of a program come to their end: the fourth pass of verify (verify.cc).
#pragma once

#include "chimera/schedule/findings.h"

namespace chimera {

// Runs all rows side by side: a receive waits for its send, a reduction's wait for the begins of
// all holders of its stage. What can go on depends on what was done, not on when (the rows are a
// Kahn network), so one run stands for all durations. Requires rows and channels that are right.
void check_progress(const Program& program, Findings& findings);

}  // namespace chimera
