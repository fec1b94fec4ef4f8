// The text drawing.
//
// Time is cut into columns, and each column shows what its worker does for most of it; so cells
// never overlap and no line is wider than asked, whatever the times are. What is left to choose is
// the scale. Where all times are multiples of one quantum (a third of the shortest action, say, for
// 3 and 4), a quantum takes a whole number of columns and the drawing is exact: wide enough for
// labels where that fits, else down to one column. Else the width is stretched over the time.
//
//      0     2     4     6     8     10    12    14      F forward down   f forward up
//   P0 F0 F1 .. f2 b2=== f3 b3=== .. B0=== ..... B1===   B backward down  b backward up
//
// tests: render_test.cc
#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>

#include "chimera/base/text.h"
#include "chimera/simulate/drawing.h"
#include "chimera/simulate/render.h"

namespace chimera {
namespace {

constexpr int kLeastColumns = 40;
constexpr int kFinestQuantum = 12;  // parts of the shortest action

// ---- scale -------------------------------------------------------------------------------------

struct Scale {
  double columns_per_s = 0;
  int columns = 0;
  int label_columns = 0;   // of the longest label
  bool gaps = false;       // a blank after each action
  int columns_needed = 0;  // of a width that gives every action its own; 0 where this does
};

char letter(const Kind& kind) {
  const char upper = info(kind.op).letter[0];
  return kind.up ? static_cast<char>(std::tolower(upper)) : upper;
}

std::string label(const Action& action, const Kind& kind) {
  const std::string text = cat(letter(kind), action.micro);
  return action.span > 1 ? cat(text, "+", int{action.span}) : text;
}

int longest_label(const Timeline& timeline) {
  std::size_t longest = 1;
  for (const auto& row : timeline.rows) {
    for (const Interval& interval : row) {
      if (!is_compute(interval.action.op)) continue;
      longest = std::max(longest, label(interval.action, {}).size());
    }
  }
  return static_cast<int>(longest);
}

bool is_multiple(double time_s, double quantum_s) {
  const double count = time_s / quantum_s;
  return std::abs(count - std::round(count)) < 1e-3;
}

bool all_multiples(const Timeline& timeline, double quantum_s) {
  for (const auto& row : timeline.rows) {
    for (const Interval& interval : row) {
      if (!is_compute(interval.action.op)) continue;
      if (!is_multiple(interval.start_s, quantum_s)) return false;
      if (!is_multiple(interval.end_s, quantum_s)) return false;
    }
  }
  return true;
}

// Into how many parts the shortest action is to be cut so that all times are multiples of a part.
std::optional<int> parts_of_shortest(const Timeline& timeline, double shortest) {
  for (int parts = 1; parts <= kFinestQuantum; ++parts) {
    if (all_multiples(timeline, shortest / parts)) return parts;
  }
  return std::nullopt;
}

// Columns for each quantum of an exact drawing; 0 where there is none that fits.
int exact_columns(const Timeline& timeline, double end_s, double shortest, int columns,
                  int wanted) {
  const std::optional<int> parts = parts_of_shortest(timeline, shortest);
  if (!parts) return 0;
  const double most = columns / (end_s * *parts / shortest);
  return std::min((wanted + *parts - 1) / *parts, static_cast<int>(most + 1e-6)) * *parts;
}

Scale choose_scale(const Timeline& timeline, int width, int margin, double span_s) {
  const int columns = width - margin;
  Scale scale;
  scale.label_columns = longest_label(timeline);
  const double end_s = makespan(timeline), shortest = shortest_s(timeline);
  if (!(end_s > 0) || !(shortest > 0)) return scale;
  scale.columns_per_s = columns / std::max(end_s, span_s);
  if (!(span_s > 0)) {
    const int exact = exact_columns(timeline, end_s, shortest, columns, scale.label_columns + 1);
    if (exact > 0) scale.columns_per_s = exact / shortest;
  }
  scale.columns =
      std::clamp(static_cast<int>(std::ceil(end_s * scale.columns_per_s - 1e-6)), 1, columns);
  const double cell = shortest * scale.columns_per_s;
  scale.gaps = cell > scale.label_columns + 1 - 1e-6;
  if (cell < 1 - 1e-6) {
    scale.columns_needed = margin + static_cast<int>(std::ceil(end_s / shortest - 1e-6));
  }
  return scale;
}

// ---- cells -------------------------------------------------------------------------------------

constexpr int kIdle = -1;

// For each column the interval that takes most of it, or kIdle.
std::vector<int> owners(const std::vector<Interval>& row, const Scale& scale) {
  const auto columns = static_cast<std::size_t>(scale.columns);
  std::vector<int> owner(columns, kIdle);
  std::vector<double> best(columns, 0), covered(columns, 0);
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (!is_compute(row[i].action.op)) continue;
    const double start = std::max(row[i].start_s * scale.columns_per_s, 0.0);
    const double end = std::min(row[i].end_s * scale.columns_per_s, double(scale.columns));
    for (auto c = static_cast<std::size_t>(start); double(c) < end; ++c) {
      const double part = std::min(end, double(c + 1)) - std::max(start, double(c));
      covered[c] += part;
      if (part <= best[c]) continue;
      best[c] = part;
      owner[c] = static_cast<int>(i);
    }
  }
  for (std::size_t c = 0; c < columns; ++c) {
    if (covered[c] < 0.5) owner[c] = kIdle;
  }
  return owner;
}

std::string_view ansi_style(const Kind& kind) {
  const bool light = kind.op == Op::kForward || kind.op == Op::kRecompute;
  if (kind.up) return light ? "\x1b[30;48;5;222m" : "\x1b[97;48;5;130m";
  return light ? "\x1b[30;48;5;153m" : "\x1b[97;48;5;25m";
}

std::string painted(std::string_view text, std::string_view style, bool colour) {
  return colour && !text.empty() ? cat(style, text, "\x1b[0m") : std::string(text);
}

constexpr std::string_view kDim = "\x1b[2m";

std::string draw_idle(std::size_t columns, const Scale& scale, bool last, bool colour) {
  const bool gap = scale.gaps && !last;
  return painted(std::string(columns - gap, '.'), kDim, colour) + (gap ? " " : "");
}

std::string draw_cell(const Action& action, const Kind& kind, std::size_t columns,
                      const Scale& scale, bool colour) {
  std::string text = label(action, kind);
  if (columns < static_cast<std::size_t>(scale.label_columns)) text.resize(1);
  const bool gap = scale.gaps && columns > text.size();
  const bool forward = action.op == Op::kForward || action.op == Op::kRecompute;
  text.resize(columns - gap, forward ? '-' : '=');
  return painted(text, ansi_style(kind), colour) + (gap ? " " : "");
}

std::string draw_row(const std::vector<Interval>& row, const Placement& placement,
                     const Scale& scale, bool colour) {
  const std::vector<int> owner = owners(row, scale);
  std::string line;
  for (std::size_t begin = 0, end = 0; begin < owner.size(); begin = end) {
    while (end < owner.size() && owner[end] == owner[begin]) ++end;
    if (owner[begin] == kIdle) {
      line += draw_idle(end - begin, scale, end == owner.size(), colour);
    } else {
      const Action& action = row[static_cast<std::size_t>(owner[begin])].action;
      line += draw_cell(action, kind_of(action, placement), end - begin, scale, colour);
    }
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

// ---- axis and legend ---------------------------------------------------------------------------

std::string draw_axis(const Scale& scale) {
  std::string line;
  if (scale.columns == 0) return line;
  const double step = round_step(6 / scale.columns_per_s);
  for (int tick = 0;; ++tick) {
    const auto column = static_cast<std::size_t>(std::lround(tick * step * scale.columns_per_s));
    const std::string text = short_number(tick * step);
    if (column + text.size() > static_cast<std::size_t>(scale.columns)) return line;
    if (tick > 0 && column < line.size() + 1) continue;
    line.resize(column, ' ');
    line += text;
  }
}

struct Word {
  std::string text;  // as it is printed
  int columns = 0;   // without escape codes
};

Word plain(const std::string& text) { return {text, static_cast<int>(text.size())}; }

std::vector<Word> legend(const std::vector<Kind>& kinds, const Scale& scale, bool colour) {
  std::vector<Word> words;
  for (const Kind& kind : kinds) {
    const std::string meaning = cat(" ", describe(kind, kinds));
    words.push_back({painted(std::string(1, letter(kind)), ansi_style(kind), colour) + meaning,
                     static_cast<int>(1 + meaning.size())});
  }
  words.push_back(plain(". idle"));
  if (scale.columns == 0) return words;
  words.push_back(plain(cat("one column is ", short_number(1 / scale.columns_per_s))));
  if (scale.columns_needed > 0) {
    words.push_back(plain(cat("all actions show at ", scale.columns_needed, " columns")));
  }
  return words;
}

std::string wrapped(const std::vector<Word>& words, const std::string& indent, int columns) {
  std::string text = indent;
  int used = static_cast<int>(indent.size());
  bool first = true;
  for (const Word& word : words) {
    if (!first && used + 3 + word.columns > columns) {
      text += "\n" + indent;
      used = static_cast<int>(indent.size());
      first = true;
    }
    text += (first ? "" : "   ") + word.text;
    used += (first ? 0 : 3) + word.columns;
    first = false;
  }
  return text + "\n";
}

}  // namespace

std::string draw_text(const Timeline& timeline, const Placement& placement,
                      const TextStyle& style) {
  const int columns = std::max(style.columns, kLeastColumns);
  const std::size_t margin =
      cat("P", std::max<std::size_t>(timeline.rows.size(), 1) - 1).size() + 1;
  const Scale scale = choose_scale(timeline, columns, static_cast<int>(margin), style.span_s);
  const std::string indent(margin, ' ');
  std::string text = indent + draw_axis(scale) + "\n";
  for (std::size_t worker = 0; worker < timeline.rows.size(); ++worker) {
    std::string name = cat("P", worker);
    name.resize(margin, ' ');
    text += name + draw_row(timeline.rows[worker], placement, scale, style.colour) + "\n";
  }
  return text +
         wrapped(legend(kinds_in(timeline, placement), scale, style.colour), indent, columns);
}

}  // namespace chimera
