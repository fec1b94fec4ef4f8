// The data of the page, as JSON: the page itself is in page.cc.
//
//   {"title": ..., "ops": [letter of each op], "up": [whether each pipe runs up],
//    "tracks": [{"name", "makespan", "bubble",
//                "rows": [[op, stage, micro, span, pipe, age, start, end, op, stage, ...], ...],
//                "reductions": [as rows], "memory": [[[time, bytes], ...], ...]}]}
//
// What takes no time and is no computation, as a simulated send, cannot be seen and is left out.
//
// tests: render_html_test.cc
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "chimera/simulate/page.h"
#include "chimera/simulate/render.h"

namespace chimera {
namespace {

using Json = nlohmann::ordered_json;

Json packed_row(const std::vector<Interval>& row) {
  Json numbers = Json::array();
  for (const Interval& interval : row) {
    const Action& action = interval.action;
    if (!is_compute(action.op) && !(interval.end_s > interval.start_s)) continue;
    numbers.push_back(static_cast<int>(action.op));
    for (const int number : std::initializer_list<int>{action.stage, action.micro, action.span,
                                                       action.pipe, action.age}) {
      numbers.push_back(number);
    }
    numbers.push_back(interval.start_s);
    numbers.push_back(interval.end_s);
  }
  return numbers;
}

Json packed_rows(const std::vector<std::vector<Interval>>& rows) {
  Json all = Json::array();
  for (const auto& row : rows) all.push_back(packed_row(row));
  return all;
}

Json packed_memory(const std::vector<std::vector<Level>>& memory) {
  Json all = Json::array();
  for (const auto& levels : memory) {
    Json& worker = all.emplace_back(Json::array());
    for (const Level& level : levels) worker.push_back({level.time_s, level.bytes});
  }
  return all;
}

Json packed_track(const Track& track) {
  return {{"name", track.name},
          {"makespan", makespan(track.timeline)},
          {"bubble", bubble_ratio(track.timeline)},
          {"rows", packed_rows(track.timeline.rows)},
          {"reductions", packed_rows(track.timeline.reductions)},
          {"memory", packed_memory(track.memory)}};
}

Json directions(const Placement& placement) {
  Json up = Json::array();
  for (int pipe = 0; pipe < placement.pipes(); ++pipe) up.push_back(placement.is_up(pipe));
  return up;
}

// No tag of HTML can be in it: '<' is in strings alone, and there it has another spelling.
std::string within_script(const Json& data) {
  std::string safe;
  for (const char c : data.dump(-1, ' ', false, Json::error_handler_t::replace)) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

}  // namespace

std::string draw_html(std::span<const Track> tracks, const Placement& placement,
                      std::string_view title) {
  Json data = {{"title", title}, {"ops", Json::array()}, {"up", directions(placement)}};
  for (const OpInfo& op : kOps) data["ops"].push_back(op.letter);
  Json& all = data["tracks"] = Json::array();
  for (const Track& track : tracks) all.push_back(packed_track(track));
  return page_around(within_script(data));
}

}  // namespace chimera
