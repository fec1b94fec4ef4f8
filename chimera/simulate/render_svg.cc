// The SVG drawing: from top to bottom title, rows, time axis, legend.
//
// Colour says the direction of the pipe (blue down, orange up), shade what is done (light forward,
// dark backward); hatching says "up" once more, for print and for those who see no colour. How a
// kind of action looks is CSS, one class a kind. The shortest action gets room for its number, so
// far as the page does not become wider than kMostWidth; numbers that do not fit are left to the
// tooltips.
//
// tests: render_test.cc
#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>

#include "chimera/base/text.h"
#include "chimera/simulate/drawing.h"
#include "chimera/simulate/render.h"

namespace chimera {
namespace {

constexpr double kLeastWidth = 480, kMostWidth = 2400;  // of the time axis, in pixels
constexpr double kMargin = 12, kTitle = 28, kAxis = 26, kLegendLine = 22, kLegendItem = 190;
constexpr double kDigit = 0.62;  // width of a digit over the font's size
constexpr double kTitleLetter = 9.5;

// ---- layout ------------------------------------------------------------------------------------

struct Layout {
  double left = 0, top = kMargin + kTitle;  // where time and rows begin
  double width = kLeastWidth;               // of the whole time
  double row = 28, box = 24;                // distance of rows, height of a box
  double page = 0;                          // width of the whole page
  double font = 11;                         // of the numbers in boxes
  double number = 0;                        // width of the widest one; narrower boxes have none
  double per_s = 0;
  std::size_t rows = 0;

  [[nodiscard]] double x(double time_s) const { return left + time_s * per_s; }
  [[nodiscard]] double y(std::size_t worker) const { return top + row * double(worker); }
  [[nodiscard]] double bottom() const { return y(rows); }
};

std::string number_in(const Action& action) {
  const std::string first = std::to_string(action.micro);
  return action.span > 1 ? cat(first, "-", action.micro + action.span - 1) : first;
}

double text_width(std::string_view text, double font) {
  return kDigit * font * double(text.size()) + 3;
}

double widest_number(const Timeline& timeline, double font) {
  double widest = 0;
  for (const auto& row : timeline.rows) {
    for (const Interval& interval : row) {
      if (!is_compute(interval.action.op)) continue;
      widest = std::max(widest, text_width(number_in(interval.action), font));
    }
  }
  return widest;
}

// The largest font whose numbers fit into the shortest action, or the smallest one.
double fitting_font(const Timeline& timeline, double shortest_px) {
  double font = 11;
  while (font > 7 && widest_number(timeline, font) > shortest_px) font -= 1;
  return font;
}

void scale_time(const Timeline& timeline, Layout& layout) {
  const double end_s = makespan(timeline), shortest = shortest_s(timeline);
  if (!(end_s > 0) || !(shortest > 0)) return;
  const double ideal = std::max(widest_number(timeline, layout.font) + 2, 22.0);
  layout.width = std::clamp(end_s / shortest * ideal, kLeastWidth, kMostWidth);
  layout.per_s = layout.width / end_s;
  layout.font = fitting_font(timeline, shortest * layout.per_s);
  layout.number = widest_number(timeline, layout.font);
}

Layout lay_out(const Timeline& timeline, std::string_view title) {
  Layout layout;
  layout.rows = timeline.rows.size();
  if (layout.rows > 12) layout.row = 20, layout.box = 18;
  layout.left = kMargin + 8 * double(cat("P", layout.rows).size()) + 6;
  scale_time(timeline, layout);
  const double title_width = kTitleLetter * double(title.size());
  layout.page = layout.left + std::max(layout.width, title_width) + kMargin;
  return layout;
}

// ---- pieces ------------------------------------------------------------------------------------

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default:
        safe += static_cast<unsigned char>(c) < ' ' ? ' ' : c;  // XML has no control codes
    }
  }
  return safe;
}

// To a hundredth of a pixel, without zeros at the end.
std::string px(double value) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(2) << value;
  std::string text = out.str();
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string kind_class(const Kind& kind) { return cat(info(kind.op).letter, kind.up ? "u" : "d"); }

std::string rect(double x, double y, double width, double height, std::string_view css) {
  return cat("<rect x=\"", px(x), "\" y=\"", px(y), "\" width=\"", px(width), "\" height=\"",
             px(height), "\" class=\"", css, "\"/>");
}

std::string text_at(double x, double y, std::string_view css, std::string_view words) {
  return cat("<text x=\"", px(x), "\" y=\"", px(y), "\" class=\"", css, "\">", escaped(words),
             "</text>");
}

struct Look {
  std::string_view fill, line, number;
};

Look look(const Kind& kind) {
  const bool light = kind.op == Op::kForward;
  const bool weight = kind.op == Op::kBackwardWeight;
  const bool recompute = kind.op == Op::kRecompute;
  if (recompute) return {kind.up ? "#fff3e0" : "#eef5fc", kind.up ? "#b45309" : "#1d4f91", "#333"};
  if (weight) return {kind.up ? "#8a3b06" : "#143a6b", kind.up ? "#5c2704" : "#0c2547", "#fff"};
  if (kind.up) {
    return light ? Look{"#fcd9a8", "#b45309", "#3b1d02"} : Look{"#c2570c", "#7c3606", "#fff"};
  }
  return light ? Look{"#bcd9f5", "#1d4f91", "#0b2545"} : Look{"#2667b0", "#153e70", "#fff"};
}

std::string style(const std::vector<Kind>& kinds, const Layout& layout) {
  std::string css =
      "text{font-family:Helvetica,Arial,sans-serif;fill:#222}"
      ".page{fill:#fff}.idle{fill:#f1f1f1}.title{font-size:15px;font-weight:bold}"
      ".worker{font-size:12px;text-anchor:end}.tick{font-size:11px;text-anchor:middle}"
      ".axis{stroke:#999;stroke-width:1}.legend{font-size:12px}"
      ".hatch{fill:url(#up);pointer-events:none}";
  for (const Kind& kind : kinds) {
    const auto [fill, line, number] = look(kind);
    const std::string name = kind_class(kind);
    css += cat(".", name, "{fill:", fill, ";stroke:", line, ";stroke-width:.8}");
    css += cat(".n", name, "{fill:", number, ";font-size:", px(layout.font),
               "px;text-anchor:middle;pointer-events:none;paint-order:stroke;stroke:", fill,
               ";stroke-width:2px}");
  }
  return cat("<style>", css, "</style>\n");
}

constexpr std::string_view kHatch =
    "<defs><pattern id=\"up\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" "
    "patternTransform=\"rotate(45)\"><rect width=\"1.3\" height=\"5\" fill=\"#fff\" "
    "fill-opacity=\".42\"/></pattern></defs>\n";

// A box as rows and legend show it, at (x, y).
std::string box(const Kind& kind, double x, double y, double width, double height) {
  std::string out = rect(x, y, width, height, kind_class(kind));
  if (kind.up) out += rect(x, y, width, height, "hatch");
  return out;
}

// ---- parts of the page -------------------------------------------------------------------------

std::string tooltip(const Interval& interval, const Kind& kind, std::size_t worker) {
  const Action& action = interval.action;
  return cat(info(action.op).name, " of micro-batch ", number_in(action), ", stage ", action.stage,
             ", ", kind.up ? "up" : "down", " pipe ", action.pipe, ", worker P", worker, ": ",
             short_number(interval.start_s), " to ", short_number(interval.end_s));
}

std::string draw_action(const Interval& interval, const Kind& kind, std::size_t worker,
                        const Layout& layout) {
  const double x = layout.x(interval.start_s), y = layout.y(worker);
  const double width = layout.x(interval.end_s) - x;
  std::string out = cat("<g><title>", escaped(tooltip(interval, kind, worker)), "</title>",
                        box(kind, x, y, width, layout.box));
  if (layout.number <= width) {
    out += text_at(x + width / 2, y + layout.box / 2 + 0.36 * layout.font, "n" + kind_class(kind),
                   number_in(interval.action));
  }
  return out + "</g>\n";
}

std::string draw_rows(const Timeline& timeline, const Placement& placement, const Layout& layout) {
  std::string out;
  for (std::size_t worker = 0; worker < timeline.rows.size(); ++worker) {
    const double y = layout.y(worker);
    out += text_at(layout.left - 6, y + layout.box / 2 + 4, "worker", cat("P", worker));
    out += rect(layout.left, y, layout.width, layout.box, "idle") + "\n";
    for (const Interval& interval : timeline.rows[worker]) {
      if (!is_compute(interval.action.op)) continue;
      out += draw_action(interval, kind_of(interval.action, placement), worker, layout);
    }
  }
  return out;
}

std::string line(double x1, double y1, double x2, double y2) {
  return cat("<line x1=\"", px(x1), "\" y1=\"", px(y1), "\" x2=\"", px(x2), "\" y2=\"", px(y2),
             "\" class=\"axis\"/>");
}

std::string draw_axis(const Timeline& timeline, const Layout& layout) {
  const double y = layout.bottom() + 2, end_s = makespan(timeline);
  std::string out = line(layout.left, y, layout.left + layout.width, y);
  if (layout.per_s == 0) return out + "\n";
  const double step = round_step(50 / layout.per_s);
  for (int tick = 0; tick * step <= end_s * (1 + 1e-9); ++tick) {
    const double x = layout.x(tick * step);
    out += line(x, y, x, y + 4) + text_at(x, y + 16, "tick", short_number(tick * step));
  }
  return out + "\n";
}

std::size_t legend_columns(const Layout& layout) {
  return static_cast<std::size_t>(std::max(1.0, layout.width / kLegendItem));
}

std::string draw_legend(const std::vector<Kind>& kinds, const Layout& layout) {
  std::string out;
  for (std::size_t i = 0; i <= kinds.size(); ++i) {
    const double x = layout.left + kLegendItem * double(i % legend_columns(layout));
    const double y = layout.bottom() + kAxis + kLegendLine * double(i / legend_columns(layout)) + 4;
    const bool idle = i == kinds.size();
    out += idle ? rect(x, y, 22, 14, "idle") : box(kinds[i], x, y, 22, 14);
    out += text_at(x + 28, y + 11, "legend", idle ? "idle" : describe(kinds[i], kinds)) + "\n";
  }
  return out;
}

double page_height(const std::vector<Kind>& kinds, const Layout& layout) {
  const std::size_t lines = kinds.size() / legend_columns(layout) + 1;
  return layout.bottom() + kAxis + kLegendLine * double(lines) + kMargin;
}

}  // namespace

std::string draw_svg(const Timeline& timeline, const Placement& placement, std::string_view title) {
  const Layout layout = lay_out(timeline, title);
  const std::vector<Kind> kinds = kinds_in(timeline, placement);
  const std::string width = px(layout.page), height = px(page_height(kinds, layout));
  std::string out = cat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", width, "\" height=\"",
                        height, "\" viewBox=\"0 0 ", width, " ", height,
                        "\" role=\"img\">\n<title>", escaped(title), "</title>\n");
  out += style(kinds, layout) + std::string(kHatch);
  out += "<rect width=\"100%\" height=\"100%\" class=\"page\"/>\n";
  out += text_at(layout.left, kMargin + 14, "title", title) + "\n";
  out += draw_rows(timeline, placement, layout) + draw_axis(timeline, layout);
  return out + draw_legend(kinds, layout) + "</svg>\n";
}

}  // namespace chimera
