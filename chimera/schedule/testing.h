// What the tests of verify share. For tests only.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "chimera/base/text.h"
#include "chimera/schedule/lower.h"
#include "chimera/schedule/text_form.h"
#include "chimera/schedule/verify.h"

namespace chimera {

inline bool has(const Verdict& verdict, Rule rule) {
  return std::any_of(verdict.violations.begin(), verdict.violations.end(),
                     [&](const Violation& violation) { return violation.rule == rule; });
}

inline bool has(const Verdict& verdict, Rule rule, std::size_t worker) {
  return std::any_of(
      verdict.violations.begin(), verdict.violations.end(), [&](const Violation& violation) {
        return violation.rule == rule && violation.worker == static_cast<int>(worker);
      });
}

inline std::string describe(const Program& program, const Verdict& verdict) {
  std::string text;
  for (const Violation& violation : verdict.violations) text += explain(program, violation);
  return text;
}

// The verdict on rows of one stage and one worker, in the text form: "0F0,0B0".
inline Verdict verdict_on_one_worker(std::string_view row, int micros) {
  return verify(lower(parse(cat("name: one\nstages: 1\nworkers: 1\npipes: 1\nmicros: ", micros,
                                "\nplacement: 0\n", row, "\n"),
                            "one")));
}

}  // namespace chimera
