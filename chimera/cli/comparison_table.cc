#include "chimera/cli/comparison_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "chimera/base/text.h"
#include "chimera/cli/text_table.h"
#include "chimera/simulate/drawing.h"

namespace chimera {
namespace {

// ---- for people --------------------------------------------------------------------------------

std::string three_digits(double value) {
  std::string text = short_number(std::round(value * 1000) / 1000);
  if (text.find('.') == std::string::npos) text += ".";
  text.resize(5, '0');
  return text;
}

std::string span_of(const Range& range) {
  if (range.low == range.high) return short_number(range.low);
  return cat(short_number(range.low), "-", short_number(range.high));
}

struct Column {
  std::string_view title;
  std::string (*text)(const Figures& figures);
  double (*value)(const Figures& figures);  // the less the better; or none
};

constexpr std::array<Column, 6> kColumns = {{
    {"makespan", [](const Figures& f) { return short_number(f.makespan); },
     [](const Figures& f) { return f.makespan; }},
    {"bubble", [](const Figures& f) { return three_digits(f.bubble_ratio); },
     [](const Figures& f) { return f.bubble_ratio; }},
    {"weights", [](const Figures& f) { return span_of(f.weights); },
     [](const Figures& f) { return f.weights.high; }},
    {"stash", [](const Figures& f) { return span_of(f.stash); },
     [](const Figures& f) { return f.stash.high; }},
    {"msgs", [](const Figures& f) { return cat(f.messages); }, nullptr},
    {"queue", [](const Figures& f) { return cat(f.capacity); }, nullptr},
}};

bool competes(const Contender& contender) {
  return contender.figures && !contender.generator->asynchronous;
}

// Whether it has the least value of the synchronous schedules, and not all of them have.
bool is_best(const Column& column, const Contender& contender,
             const std::vector<Contender>& contenders) {
  if (column.value == nullptr || !competes(contender)) return false;
  double least = std::numeric_limits<double>::infinity(), most = -least;
  for (const Contender& other : contenders) {
    if (!competes(other)) continue;
    least = std::min(least, column.value(*other.figures));
    most = std::max(most, column.value(*other.figures));
  }
  constexpr double kRounding = 1e-9;
  const double value = column.value(*contender.figures);
  return value <= least + kRounding * most && value < most - kRounding * most;
}

struct Line {
  std::string name, pairs;
  std::vector<std::string> cells;  // of kColumns and sync; none where there is a reason
  std::vector<bool> best;
  std::string reason;
};

std::vector<Line> lines_of(const std::vector<Contender>& contenders) {
  std::vector<Line> lines;
  for (const Contender& contender : contenders) {
    Line& line = lines.emplace_back();
    line.name = name_with_method(*contender.generator, contender.spec);
    if (contender.spec.pairs) line.pairs = cat(*contender.spec.pairs);
    line.reason = contender.reason;
    if (!contender.figures) continue;
    for (const Column& column : kColumns) {
      line.cells.push_back(column.text(*contender.figures));
      line.best.push_back(is_best(column, contender, contenders));
    }
    line.cells.emplace_back(contender.generator->asynchronous ? "async" : "sync");
    line.best.push_back(false);
  }
  return lines;
}

std::vector<std::string> titles() {
  std::vector<std::string> titles;
  titles.reserve(kColumns.size() + 1);
  for (const Column& column : kColumns) titles.emplace_back(column.title);
  titles.emplace_back("kind");
  return titles;
}

// Widths of columns; the first two are the name and f.
struct TableLayout {
  std::size_t name, pairs;
  std::vector<std::size_t> cells;
};

TableLayout layout_of(const std::vector<Line>& lines) {
  TableLayout layout{8, 1, {}};
  for (const std::string& title : titles()) layout.cells.push_back(title.size());
  for (const Line& line : lines) {
    layout.name = std::max(layout.name, line.name.size());
    layout.pairs = std::max(layout.pairs, line.pairs.size());
    for (std::size_t i = 0; i < line.cells.size(); ++i) {
      layout.cells[i] = std::max(layout.cells[i], line.cells[i].size());
    }
  }
  return layout;
}

std::string row_of(const Line& line, const TableLayout& layout, int columns) {
  std::string text = pad_right(line.name, layout.name) + " " + pad_left(line.pairs, layout.pairs);
  if (line.cells.empty()) {
    text += "  ";
    return text + wrapped(line.reason, text.size(), static_cast<std::size_t>(columns)) + "\n";
  }
  for (std::size_t i = 0; i < line.cells.size(); ++i) {
    text += " " + pad_left(line.cells[i], layout.cells[i]) + (line.best[i] ? "*" : " ");
  }
  return without_blanks_at_the_end(text);
}

constexpr const char* kLegend =
    "*         the least of the synchronous schedules\n"
    "makespan  time of one step; of an asynchronous schedule once it runs steadily\n"
    "weights   stages' weights on a worker at the peak, each version counted\n"
    "stash     micro-batches whose activations a worker holds at the peak\n"
    "msgs      messages of one step, all workers together\n"
    "queue     messages that a channel must be able to hold\n";

// ---- for programs ------------------------------------------------------------------------------

// Null where there is nothing to say.
nlohmann::ordered_json record_of(const Contender& contender) {
  const auto number = [&](auto value) {
    return contender.figures ? nlohmann::ordered_json(value(*contender.figures)) : nullptr;
  };
  const Spec& spec = contender.spec;
  using Json = nlohmann::ordered_json;
  return {
      {"schedule", contender.generator->name},
      {"method", spec.method ? Json(kMethods[static_cast<std::size_t>(*spec.method)]) : nullptr},
      {"fused", spec.fused},
      {"pairs", spec.pairs ? Json(*spec.pairs) : nullptr},
      {"synchronous", !contender.generator->asynchronous},
      {"makespan", number([](const Figures& f) { return f.makespan; })},
      {"bubble_ratio", number([](const Figures& f) { return f.bubble_ratio; })},
      {"weights_min", number([](const Figures& f) { return f.weights.low; })},
      {"weights_max", number([](const Figures& f) { return f.weights.high; })},
      {"stash_min", number([](const Figures& f) { return f.stash.low; })},
      {"stash_max", number([](const Figures& f) { return f.stash.high; })},
      {"messages", number([](const Figures& f) { return f.messages; })},
      {"capacity", number([](const Figures& f) { return f.capacity; })},
      {"reason", contender.reason.empty() ? nullptr : Json(contender.reason)},
  };
}

std::string csv_field(const nlohmann::ordered_json& value) {
  if (value.is_null()) return "";
  if (!value.is_string()) return value.dump();
  std::string field = value.get<std::string>();
  if (field.find_first_of(",\"\n") == std::string::npos) return field;
  for (std::size_t at = 0; (at = field.find('"', at)) != std::string::npos; at += 2) {
    field.insert(at, 1, '"');
  }
  return cat('"', field, '"');
}

}  // namespace

std::string table_of(const Work& work, const std::vector<Contender>& contenders, int columns) {
  const std::vector<Line> lines = lines_of(contenders);
  const TableLayout layout = layout_of(lines);
  const std::vector<std::string> head = titles();
  std::string text = cat(work.stages, work.stages == 1 ? " stage, " : " stages, ", work.micros,
                         work.micros == 1 ? " micro-batch" : " micro-batches", " a step\n\n");
  text += row_of({"schedule", "f", head, std::vector<bool>(head.size()), ""}, layout, columns);
  for (const Line& line : lines) text += row_of(line, layout, columns);
  return text + "\n" + kLegend;
}

std::string markdown_of(const std::vector<Contender>& contenders) {
  std::string text = cat("| schedule | f | ", join(titles(), " | "), " |\n|---|---|");
  for (std::size_t i = 0; i < titles().size(); ++i)
    text += i + 1 < titles().size() ? "--:|" : "---|";
  text += "\n";
  for (Line& line : lines_of(contenders)) {
    for (std::size_t i = 0; i < line.cells.size(); ++i) {
      if (line.best[i]) line.cells[i] = cat("**", line.cells[i], "**");
    }
    if (line.cells.empty()) {
      line.cells.resize(titles().size());
      line.name += ": " + line.reason;
    }
    text += cat("| ", line.name, " | ", line.pairs, " | ", join(line.cells, " | "), " |\n");
  }
  return text;
}

std::string csv_of(const std::vector<Contender>& contenders) {
  std::vector<std::string> rows;
  for (const Contender& contender : contenders) {
    std::vector<std::string> names, fields;
    const nlohmann::ordered_json record = record_of(contender);
    for (const auto& [name, value] : record.items()) {
      names.push_back(name);
      fields.push_back(csv_field(value));
    }
    if (rows.empty()) rows.push_back(join(names, ","));
    rows.push_back(join(fields, ","));
  }
  return join(rows, "\n") + "\n";
}

std::string json_of(const Work& work, const std::vector<Contender>& contenders) {
  nlohmann::ordered_json schedules = nlohmann::ordered_json::array();
  for (const Contender& contender : contenders) schedules.push_back(record_of(contender));
  const nlohmann::ordered_json all = {
      {"stages", work.stages}, {"micros", work.micros}, {"schedules", schedules}};
  return all.dump(2) + "\n";
}

}  // namespace chimera
