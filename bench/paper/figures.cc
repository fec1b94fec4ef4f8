#include "bench/paper/figures.h"

#include <iomanip>
#include <sstream>

#include "chimera/base/error.h"
#include "chimera/base/file.h"
#include "chimera/base/number.h"
#include "chimera/base/text.h"

namespace chimera {
namespace {

constexpr std::size_t kColumns = 15;
constexpr double kGiga = 1e9;

class Line {
 public:
  Line(std::string_view text, int number) : cells_(split(text, ',')), number_(number) {
    if (cells_.size() != kColumns) refuse(cat("has ", cells_.size(), " cells, not ", kColumns));
  }

  [[nodiscard]] std::string text(std::size_t column) const { return std::string(cells_[column]); }
  [[nodiscard]] int count(std::size_t column) const {
    const auto value = parse_number<int>(cells_[column]);
    if (!value || *value < 1) refuse(cat("has '", cells_[column], "' for a count from 1"));
    return *value;
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    throw Error(ErrorCode::kData, cat("figures.csv, line ", number_, " ", what,
                                      "; see the head of the file for what it has"));
  }

  std::vector<std::string_view> cells_;
  int number_;
};

FigurePoint read_point(const Line& line) {
  FigurePoint point{.figure = line.text(0),
                    .scheme = line.text(1),
                    .quantity = line.text(2),
                    .paper = line.text(3),
                    .use = line.text(4),
                    .model = line.text(5),
                    .nodes = line.count(6),
                    .run = {}};
  PaperRun& run = point.run;
  run.schedule = line.text(7);
  if (!line.text(8).empty()) run.method = method(line.text(8));
  run.stages = line.count(9);
  run.width = line.count(10);
  run.pipes = line.count(11);
  run.sequences = line.count(12);
  run.micros = line.count(13);
  run.recompute = line.text(14) == "yes";
  return point;
}

std::string rounded(double value) {
  std::ostringstream out;
  out << std::setprecision(6) << value;
  return out.str();
}

}  // namespace

std::vector<FigurePoint> parse_figures(std::string_view csv) {
  std::vector<FigurePoint> points;
  int number = 0;
  bool header = true;
  for (const std::string_view line : split(csv, '\n')) {
    ++number;
    if (line.empty() || line.front() == '#') continue;
    if (!header) points.push_back(read_point(Line(line, number)));
    header = false;
  }
  return points;
}

const Profile& Models::of(std::string_view model) const {
  if (model == "bert48") return bert48;
  if (model == "gpt2") return gpt2;
  if (model == "gpt2-32") return gpt2_half;
  throw Error(ErrorCode::kData,
              cat("figures.csv names the model '", model, "'; expected bert48, gpt2 or gpt2-32"));
}

Models load_models(const std::string& folder) {
  Models models{.bert48 = load_profile(folder + "/bert48_p100.toml"),
                .gpt2 = load_profile(folder + "/gpt2_p100.toml"),
                .gpt2_half = {}};
  models.gpt2_half = models.gpt2;
  models.gpt2_half.blocks.resize(models.gpt2.blocks.size() / 2);
  return models;
}

std::string simulated(const FigurePoint& point, const Models& models, const Machine& machine) {
  const Profile& profile = models.of(point.model);
  if (point.quantity == "bubble_percent") return rounded(100 * equal_bubble_ratio(point.run));
  if (point.quantity == "throughput") return rounded(throughput(point.run, profile, machine));
  if (point.quantity == "equation") {
    return rounded(equation_throughput(point.run, profile, machine));
  }
  const Peaks bytes = peaks(point.run, profile, machine);
  if (bytes.most > machine.limit_bytes(0) + machine.reserved_bytes) return "oom";
  return rounded((point.quantity == "peak_gb" ? bytes.most : bytes.least) / kGiga);
}

}  // namespace chimera
