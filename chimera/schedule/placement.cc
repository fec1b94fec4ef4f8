#include "chimera/schedule/placement.h"

#include <algorithm>

#include "chimera/base/check.h"
#include "chimera/base/error.h"
#include "chimera/base/text.h"

namespace chimera {

Placement::Placement(std::vector<std::vector<int>> workers) : map_(std::move(workers)) {
  const auto refuse = [](const std::string& why) {
    throw Error(ErrorCode::kUsage, "placement: " + why);
  };
  if (map_.empty() || map_[0].empty()) refuse("is empty; expected at least one pipe of one stage");
  for (std::size_t pipe = 0; pipe < map_.size(); ++pipe) {
    if (map_[pipe].size() != map_[0].size()) {
      refuse(cat("pipe ", pipe, " has ", map_[pipe].size(), " stages, pipe 0 has ", map_[0].size(),
                 "; every pipe holds the whole model"));
    }
    for (const int worker : map_[pipe]) {
      if (worker < 0 || worker >= kMaxStages) {
        refuse(cat("worker ", worker, " in pipe ", pipe, "; expected 0 to ", kMaxStages - 1));
      }
      workers_ = std::max(workers_, worker + 1);
    }
  }
  if (static_cast<int>(map_[0].size()) > kMaxStages || pipes() > kMaxStages) {
    refuse(cat("more than ", kMaxStages, " stages or pipes"));
  }
  list();
}

void Placement::list() {
  stages_of_.resize(static_cast<std::size_t>(workers_));
  holders_.resize(map_[0].size());
  for (std::size_t stage = 0; stage < holders_.size(); ++stage) {
    auto& held_by = holders_[stage];
    for (const auto& pipe : map_) held_by.push_back(pipe[stage]);
    std::sort(held_by.begin(), held_by.end());
    held_by.erase(std::unique(held_by.begin(), held_by.end()), held_by.end());
    for (const int worker : held_by) {
      stages_of_[static_cast<std::size_t>(worker)].push_back(static_cast<int>(stage));
    }
  }
}

Placement Placement::linear(int stages) {
  std::vector<int> pipe(static_cast<std::size_t>(stages));
  for (int stage = 0; stage < stages; ++stage) pipe[static_cast<std::size_t>(stage)] = stage;
  return Placement({pipe});
}

Placement Placement::opposite(int stages) {
  std::vector<int> down = linear(stages).map_.front();
  std::vector<int> up(down.rbegin(), down.rend());
  return Placement({std::move(down), std::move(up)});
}

Placement Placement::bidirectional(int stages, int pairs) {
  CHECK(stages >= 2 && stages % 2 == 0 && pairs >= 1 && (stages / 2) % pairs == 0);
  std::vector<std::vector<int>> down, up;
  for (int pair = 0; pair < pairs; ++pair) {
    std::vector<int> pipe;
    for (int stage = 0; stage < stages; ++stage) {
      pipe.push_back((stage + pair * (stages / pairs)) % stages);
    }
    down.push_back(pipe);
    std::reverse(pipe.begin(), pipe.end());
    up.push_back(std::move(pipe));
  }
  down.insert(down.end(), up.begin(), up.end());
  return Placement(std::move(down));
}

bool Placement::is_up(int pipe) const {
  int descents = 0, ascents = 0;
  for (int stage = 1; stage < stages(); ++stage) {
    const int step = worker(pipe, stage) - worker(pipe, stage - 1);
    descents += step < 0 ? 1 : 0;
    ascents += step > 0 ? 1 : 0;
  }
  return descents > ascents;
}

const std::vector<int>& Placement::stages_of(int worker) const {
  static const std::vector<int> kNone;  // of a worker beyond all that the map names
  const auto index = static_cast<std::size_t>(worker);
  return worker >= 0 && index < stages_of_.size() ? stages_of_[index] : kNone;
}

}  // namespace chimera
