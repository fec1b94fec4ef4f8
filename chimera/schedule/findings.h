// Where verify's passes write what they find.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "chimera/base/text.h"
#include "chimera/schedule/verify.h"

namespace chimera {

// An action of a program and where it stands.
struct Place {
  std::size_t worker = 0, position = 0;
  Action action;
};

class Findings {
 public:
  template <class... Parts>
  void add(Rule rule, const Place& at, const Parts&... what) {
    violations_.push_back({rule, static_cast<int>(at.worker), static_cast<int>(at.position),
                           at.action, cat(what...)});
  }

  // The sentence begins with the action.
  template <class... Parts>
  void add_action(Rule rule, const Place& at, const Parts&... what) {
    add(rule, at, to_string(at.action), " ", what...);
  }

  [[nodiscard]] bool none() const { return violations_.empty(); }

  // Whether the last finding was this one.
  [[nodiscard]] bool ends_with(Rule rule, const Place& at) const {
    return !none() && violations_.back().rule == rule &&
           violations_.back().worker == static_cast<int>(at.worker) &&
           violations_.back().position == static_cast<int>(at.position);
  }

  [[nodiscard]] std::vector<Violation>& list() { return violations_; }

 private:
  std::vector<Violation> violations_;
};

}  // namespace chimera
