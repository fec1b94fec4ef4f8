#include "chimera/cli/plan_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "chimera/base/text.h"
#include "chimera/cli/text_table.h"

namespace chimera {
namespace {

// One for the whole table, so that its columns are narrow.
struct TimeUnit {
  std::string_view name;
  double seconds = 1;
  int digits = 3;
};

// With three to five digits of the shortest.
TimeUnit unit_for(double seconds) {
  if (seconds >= 1) return {"s", 1, seconds >= 100 ? 1 : 3};
  return {"ms", 1e-3, seconds >= 0.1 ? 1 : 3};
}

std::string in_unit(double seconds, const TimeUnit& unit) {
  return fixed_text(seconds / unit.seconds, unit.digits);
}

double highest(const std::vector<double>& values) {
  return *std::max_element(values.begin(), values.end());
}

std::string recompute_text(const Candidate& candidate) {
  if (candidate.recomputed == candidate.split) return "all";
  int blocks = 0;
  for (const int count : candidate.recomputed) blocks += count;
  return blocks == 0 ? "none" : cat(blocks);
}

struct PlanColumn {
  std::string_view title;
  std::string (*text)(const Plan&, const TimeUnit&);
};

using Unit = const TimeUnit&;
constexpr auto kPlanColumns = std::to_array<PlanColumn>({
    {"f", [](const Plan& p,
             Unit) { return p.candidate.spec.pairs ? cat(*p.candidate.spec.pairs) : ""; }},
    {"D", [](const Plan& p, Unit) { return cat(p.candidate.spec.stages); }},
    {"W", [](const Plan& p, Unit) { return cat(p.candidate.width); }},
    {"B", [](const Plan& p, Unit) { return cat(p.candidate.micro_batch); }},
    {"N", [](const Plan& p, Unit) { return cat(p.candidate.spec.micros); }},
    {"rec.", [](const Plan& p, Unit) { return recompute_text(p.candidate); }},
    {"step", [](const Plan& p, Unit unit) { return in_unit(p.prediction.step_s, unit); }},
    {"eq. 1",
     [](const Plan& p, Unit unit) {
       return p.prediction.equation ? in_unit(p.prediction.equation->seconds, unit) : "";
     }},
    {"seq/s", [](const Plan& p, Unit) { return fixed_text(p.prediction.throughput, 1); }},
    {"bubble", [](const Plan& p, Unit) { return fixed_text(p.prediction.bubble_ratio, 3); }},
    {"peak", [](const Plan& p, Unit) { return bytes_text(highest(p.prediction.peak_bytes)); }},
});

// First cells are titles.
using Cells = std::vector<std::vector<std::string>>;

std::string name_of(const Candidate& candidate) {
  return name_with_method(*candidate.generator, candidate.spec) +
         (candidate.generator->asynchronous ? " *" : "");
}

Cells cells_of(const std::vector<Plan>& plans, const TimeUnit& unit) {
  Cells cells(1, {"", "schedule"});
  for (const PlanColumn& column : kPlanColumns) cells[0].emplace_back(column.title);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    auto& line = cells.emplace_back();
    line.push_back(cat(i + 1));
    line.push_back(name_of(plans[i].candidate));
    for (const PlanColumn& column : kPlanColumns) line.push_back(column.text(plans[i], unit));
  }
  return cells;
}

std::string lines_of_cells(const Cells& cells) {
  std::vector<std::size_t> widths(cells[0].size());
  for (const auto& line : cells) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const auto& line : cells) {
    std::string row = pad_left(line[0], widths[0]) + "  " + pad_right(line[1], widths[1]);
    for (std::size_t i = 2; i < line.size(); ++i) row += "  " + pad_left(line[i], widths[i]);
    text += without_blanks_at_the_end(row);
  }
  return text;
}

// A split is long where there are many stages: "2,2,1" or "31x2,1".
std::string split_text(const std::vector<int>& split) {
  std::vector<std::string> runs;
  for (std::size_t begin = 0; begin < split.size();) {
    std::size_t end = begin;
    while (end < split.size() && split[end] == split[begin]) ++end;
    runs.push_back(end - begin > 2 ? cat(end - begin, "x", split[begin]) : cat(split[begin]));
    if (end - begin == 2) runs.push_back(cat(split[begin]));
    begin = end;
  }
  return join(runs, ",");
}

// What titles and sentences leave out.
std::string legend(const std::vector<Plan>& plans, const TimeUnit& unit) {
  const auto any = [&](auto has) { return std::ranges::any_of(plans, has, &Plan::candidate); };
  std::string text =
      cat("Times in ", unit.name, "; rec.: blocks recomputed; peak: of the fullest worker.");
  if (any([](const Candidate& one) { return one.generator->asynchronous; })) {
    text += " *: asynchronous.";
  }
  if (any([](const Candidate& one) {
        return split_text(one.split).find('x') != std::string::npos;
      })) {
    text += " 3x5: three stages of five blocks.";
  }
  return text;
}

nlohmann::ordered_json candidate_json(const Candidate& candidate) {
  const Spec& spec = candidate.spec;
  nlohmann::ordered_json json;
  if (candidate.generator != nullptr) {
    json["schedule"] = candidate.generator->name;
    json["asynchronous"] = candidate.generator->asynchronous;
  }
  if (spec.method) {
    json["method"] = kMethods[static_cast<std::size_t>(*spec.method)];
    json["fused"] = spec.fused;
  }
  if (spec.pairs) json["pairs"] = *spec.pairs;
  json["stages"] = spec.stages;
  json["width"] = candidate.width;
  json["micro_batch"] = candidate.micro_batch;
  if (spec.micros > 0) json["micros"] = spec.micros;
  if (!candidate.split.empty()) json["split"] = candidate.split;
  if (!candidate.recomputed.empty()) json["recompute"] = candidate.recomputed;
  return json;
}

nlohmann::ordered_json equation_json(const EquationOne& equation) {
  return {{"forward_s", equation.forward_s},
          {"backward_s", equation.backward_s},
          {"p2p_s", equation.p2p_s},
          {"forwards", equation.path.forwards},
          {"backwards", equation.path.backwards},
          {"unoverlapped_s", equation.unoverlapped_s},
          {"optimizer_s", equation.step_s},
          {"seconds", equation.seconds}};
}

nlohmann::ordered_json prediction_json(const Prediction& prediction) {
  nlohmann::ordered_json json = {{"step_s", prediction.step_s},
                                 {"sequences_per_s", prediction.throughput},
                                 {"bubble_ratio", prediction.bubble_ratio},
                                 {"busy_s", prediction.busy_s},
                                 {"peak_bytes", prediction.peak_bytes}};
  auto& limits = json["limit_bytes"] = nlohmann::ordered_json::array();
  for (const double limit : prediction.limit_bytes) {
    if (std::isfinite(limit)) {
      limits.push_back(limit);
    } else {
      limits.push_back(nullptr);
    }
  }
  if (prediction.equation) json["equation_1"] = equation_json(*prediction.equation);
  return json;
}

}  // namespace

std::string plan_table(const Plans& plans, const PlanTableStyle& style) {
  const TimeUnit unit = unit_for(plans.best.front().prediction.step_s);
  const auto width = static_cast<std::size_t>(style.columns);
  std::string text = cat(lines_of_cells(cells_of(plans.best, unit)),
                         wrapped(legend(plans.best, unit), 0, width), "\n\n");
  const auto sentence = [&](const std::string& head, const std::string& body) {
    text += head + wrapped(body, head.size(), width) + "\n";
  };
  constexpr std::size_t kNumber = 4;
  for (std::size_t i = 0; i < plans.best.size(); ++i) {
    sentence(pad_right(cat(i + 1, "."), kNumber),
             cat("split ", split_text(plans.best[i].candidate.split), ": ", plans.best[i].why));
  }
  text += "\n";
  sentence("", cat(plans.considered, " layouts looked at, ", plans.refused.size(), " refused, ",
                   plans.simulated,
                   " simulations; the others are slower by a lower bound, blocks spread evenly."));
  std::vector<std::string> said;
  for (const Refused& refused : plans.refused) {
    if (std::ssize(said) >= style.refused) break;
    const std::string line = cat(describe(refused.candidate), ": ", refused.reason);
    if (std::find(said.begin(), said.end(), line) != said.end()) continue;
    sentence("refused: ", line);
    said.push_back(line);
  }
  return text;
}

std::string plan_json(const Plans& plans, const PlanRequest& request) {
  nlohmann::ordered_json json;
  json["ranks"] = request.ranks;
  json["batch"] = request.batch;
  json["machine"] = request.machine.name;
  json["device"] = request.profile.device;
  json["parameters"] = request.profile.parameters();
  json["considered"] = plans.considered;
  json["simulated"] = plans.simulated;
  auto& best = json["plans"] = nlohmann::ordered_json::array();
  for (const Plan& plan : plans.best) {
    nlohmann::ordered_json one = candidate_json(plan.candidate);
    one.update(prediction_json(plan.prediction));
    one["why"] = plan.why;
    best.push_back(std::move(one));
  }
  auto& refused = json["refused"] = nlohmann::ordered_json::array();
  for (const Refused& one : plans.refused) {
    nlohmann::ordered_json line = candidate_json(one.candidate);
    line["reason"] = one.reason;
    if (one.needed_bytes > 0) line["needed_bytes"] = one.needed_bytes;
    refused.push_back(std::move(line));
  }
  return json.dump(2) + "\n";
}

}  // namespace chimera
