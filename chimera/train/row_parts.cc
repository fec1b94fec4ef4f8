#include "chimera/train/row_parts.h"

namespace chimera {

RowParts::RowParts(const Program& program, int micros_per_step)
    : program_(program),
      micros_per_step_(micros_per_step),
      whole_(!has_steps(program.source)),
      ends_(program.rows.size()) {
  if (whole_) return;
  for (std::size_t worker = 0; worker < program.rows.size(); ++worker) {
    const Row& row = program.rows[worker];
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (row[i].op != Op::kStep) continue;
      const auto step = static_cast<std::size_t>(row[i].micro / micros_per_step);
      if (ends_[worker].size() <= step) ends_[worker].resize(step + 1);
      ends_[worker][step] = i + 1;
    }
  }
}

Row RowParts::part(int worker, std::int64_t step, std::int64_t end_micro) const {
  const Row& row = program_.rows[static_cast<std::size_t>(worker)];
  if (whole_) return row;
  const auto& ends = ends_[static_cast<std::size_t>(worker)];
  const auto index = static_cast<std::size_t>(step);
  Row part;
  for (std::size_t i = index == 0 ? 0 : ends[index - 1]; i < ends[index]; ++i) {
    if (row[i].micro < end_micro) part.push_back(row[i]);
  }
  return part;
}

Row RowParts::forwards(int worker) const {
  Row part;
  for (Action action : program_.rows[static_cast<std::size_t>(worker)]) {
    if (action.op != Op::kForward && action.op != Op::kSendActivation &&
        action.op != Op::kRecvActivation) {
      continue;
    }
    if (action.micro >= micros_per_step_) continue;
    action.age = 0;
    part.push_back(action);
  }
  return part;
}

}  // namespace chimera
