// How plans are printed: a table with sentences for people, JSON for programs.
#pragma once

#include <string>

#include "chimera/plan/plan.h"

namespace chimera {

struct PlanTableStyle {
  int columns = 100;
  int refused = 5;  // how many of those refused are named
};

[[nodiscard]] std::string plan_table(const Plans& plans, const PlanTableStyle& style);
[[nodiscard]] std::string plan_json(const Plans& plans, const PlanRequest& request);

}  // namespace chimera
