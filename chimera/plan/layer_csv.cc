#include "chimera/plan/layer_csv.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "chimera/base/error.h"
#include "chimera/base/number.h"
#include "chimera/base/text.h"

namespace chimera {
namespace {

constexpr double kMostOfTable = 1e9;
constexpr double kMebi = 1024.0 * 1024.0;

class CsvTable {
 public:
  CsvTable(std::string_view text, std::string_view source) : source_(source) {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
    for (const std::string_view line : split(text, '\n')) {
      const std::string_view row = trim(line);
      if (!row.empty()) rows_.push_back(split(row, ','));
    }
    if (rows_.size() < 2) refuse("has no rows");
  }

  [[nodiscard]] std::size_t size() const { return rows_.size() - 1; }

  [[nodiscard]] double number(std::size_t row, std::string_view column) const {
    const auto& names = rows_.front();
    const auto name = std::find_if(names.begin(), names.end(),
                                   [&](std::string_view word) { return trim(word) == column; });
    if (name == names.end()) refuse(cat("has no column '", column, "'"));
    const auto& words = rows_[row + 1];
    const auto place = static_cast<std::size_t>(name - names.begin());
    const auto value =
        place < words.size() ? parse_number<double>(trim(words[place])) : std::nullopt;
    if (!value || !std::isfinite(*value) || *value < 0 || *value > kMostOfTable) {
      refuse(cat("row ", row + 1, " has no number from 0 to ", kMostOfTable, " in column '", column,
                 "'"));
    }
    return *value;
  }

  [[noreturn]] void refuse(std::string_view what) const {
    throw Error(ErrorCode::kData, cat(source_, " ", what,
                                      "; expected a layer's profile as CSV, with a header and the "
                                      "columns bs, time_f, time_b, mem_param, mem_act, "
                                      "mem_peak_err"));
  }

 private:
  std::string source_;
  std::vector<std::vector<std::string_view>> rows_;
};

}  // namespace

// mem_param is measured too, and grows with the micro-batch by what the framework keeps beside the
// parameters, so the parameters are those of the smallest one. mem_act is what is there after a
// forward and was not before it: the output, too.
LayerKind parse_layer_csv(std::string_view text, std::string_view source, double message_bytes) {
  constexpr double kMs = 1e-3;
  const CsvTable table(text, source);
  LayerKind kind;
  kind.name = "block";
  kind.weight_bytes = kind.gradient_bytes = table.number(0, "mem_param") * kMebi;
  kind.optimizer_bytes = 2 * kind.weight_bytes;
  kind.parameters = static_cast<std::int64_t>(kind.weight_bytes / 4);
  for (std::size_t row = 0; row < table.size(); ++row) {
    LayerPoint point;
    const double sequences = table.number(row, "bs");
    point.sequences = static_cast<int>(sequences);
    if (point.sequences != sequences || point.sequences < 1 ||
        (!kind.points.empty() && kind.points.back().sequences >= point.sequences)) {
      table.refuse(cat("row ", row + 1, " has bs ", sequences,
                       ", not a whole number above the row before's"));
    }
    point.forward_s = point.recompute_s = table.number(row, "time_f") * kMs;
    point.backward_s = table.number(row, "time_b") * kMs;
    point.backward_input_s = point.backward_s / 2;
    point.output_bytes = message_bytes * sequences;
    point.stash_bytes = std::max(0.0, table.number(row, "mem_act") * kMebi - point.output_bytes);
    point.backward_work_bytes = table.number(row, "mem_peak_err") * kMebi;
    point.end_backward_work_bytes = point.backward_work_bytes;
    kind.points.push_back(point);
  }
  return kind;
}

}  // namespace chimera
