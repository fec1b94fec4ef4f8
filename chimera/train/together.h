// Things that all ranks do at one point of the program, however long one of them takes: the others
// wait for it without running into the limit on a single wait, for each rank gives signs of life.
#pragma once

#include <functional>

#include "chimera/transport/transport.h"

namespace chimera {

// Returns on all ranks once `done` was true on each of them. `done(wait_s)` waits for this rank's
// part for up to so many seconds; once true it is not asked again. What it throws ends the run.
void wait_for_all(Transport& transport, const std::function<bool(double wait_s)>& done);

// Returns on all ranks once all have come here.
void meet(Transport& transport);

}  // namespace chimera
