// The paper's measured points, from figures.csv.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/paper/evaluate.h"

namespace chimera {

struct FigurePoint {
  std::string figure, scheme;
  std::string quantity;  // throughput, peak_gb, least_gb, bubble_percent, equation
  std::string paper;     // a number, or "oom"
  std::string use;       // fitted, seen, predicted
  std::string model;     // bert48, gpt2, gpt2-32
  int nodes = 0;
  PaperRun run;
};

// Throws Error (kData) with the line of what is not as the file's head says.
[[nodiscard]] std::vector<FigurePoint> parse_figures(std::string_view csv);

// The profiles of the models that points name.
struct Models {
  Profile bert48, gpt2, gpt2_half;

  [[nodiscard]] const Profile& of(std::string_view model) const;  // throws Error (kData)
};

// From the folder's bert48_p100.toml and gpt2_p100.toml. GPT-2 of 32 layers is the first half of
// the one of 64. Throws Error.
[[nodiscard]] Models load_models(const std::string& folder);

// What we say of the point: a number in its quantity's unit, or "oom" where it does not fit.
[[nodiscard]] std::string simulated(const FigurePoint& point, const Models& models,
                                    const Machine& machine);

}  // namespace chimera
