// Drawings of a timeline, one row a worker: text for a terminal, SVG for a document, HTML to look
// into, and trace events for other programs.
//
// Forward and backward, and pipes that ascend ("down") and descend ("up") the workers, are told
// apart with and without colour: by letter and case in text, by shade and hatching in SVG and HTML.
// Text and SVG draw compute actions only; what is empty is idle. Pure functions; measured times, on
// no common grid, are drawn like predicted ones.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chimera/simulate/timeline.h"

namespace chimera {

struct TextStyle {
  bool colour = false;  // ANSI escape codes
  int columns = 100;    // the widest line, at least 40; what needs more is scaled down
  // The time that the full width stands for, so that two drawings share one scale.
  // 0: each the timeline's own end.
  double span_s = 0;
};

// Lines, each with its newline: a time axis, a row for each worker, a legend. The direction of a
// pipe comes from the placement.
//
//      0     2     4     6     8     10    12    14
//   P0 F0 F1 .. f2 b2=== f3 b3=== .. B0=== ..... B1===
[[nodiscard]] std::string draw_text(const Timeline& timeline, const Placement& placement,
                                    const TextStyle& style = {});

// A self-contained document, with a tooltip on each action. `title` is escaped.
[[nodiscard]] std::string draw_svg(const Timeline& timeline, const Placement& placement,
                                   std::string_view title);

// One timeline of several that are shown together: "predicted", "measured".
struct Track {
  std::string name;
  Timeline timeline;
  std::vector<std::vector<Level>> memory = {};  // over time, one list a worker; or empty
};

// A self-contained page, to zoom and to hover over: tracks one over the other on one time scale,
// with waits, all-reduces and memory. Times are shown as seconds. `title` and names are escaped.
[[nodiscard]] std::string draw_html(std::span<const Track> tracks, const Placement& placement,
                                    std::string_view title);

// JSON for chrome://tracing and Perfetto: a process for each track, a thread for each worker.
[[nodiscard]] std::string draw_trace(std::span<const Track> tracks, const Placement& placement);

}  // namespace chimera
