// Printed schedules for small D, N, f: a change of any generator shows here as a diff to review.
// CHIMERA_UPDATE_GOLDEN=1 build/golden_test writes them anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "chimera/base/text.h"
#include "chimera/generate/generate.h"
#include "chimera/schedule/text_form.h"

namespace chimera {
namespace {

struct Golden {
  const char* name;
  int stages, micros, pairs;
};

constexpr Golden kGolden[] = {{"gpipe", 4, 4, 1},   {"gpipe", 4, 2, 1},   {"1f1b", 4, 4, 1},
                              {"1f1b", 4, 8, 1},    {"1f1b", 4, 2, 1},    {"chimera", 2, 2, 1},
                              {"chimera", 4, 1, 1}, {"chimera", 4, 3, 1}, {"chimera", 4, 4, 1},
                              {"chimera", 4, 4, 2}, {"chimera", 4, 8, 1}, {"chimera", 4, 10, 1},
                              {"chimera", 8, 8, 1}, {"chimera", 8, 8, 2}, {"chimera", 8, 8, 4}};

std::string read(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Golden, SchedulesAreThoseOnFile) {
  for (const Golden& golden : kGolden) {
    Spec spec{.stages = golden.stages, .micros = golden.micros};
    std::string path = cat("tests/golden/", golden.name, "_d", golden.stages, "_n", golden.micros);
    if (golden.pairs != 1) {
      spec.pairs = golden.pairs;
      path += cat("_f", golden.pairs);
    }
    path += ".txt";
    const std::string text = print(generate(golden.name, spec));
    if (std::getenv("CHIMERA_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
    EXPECT_EQ(read(path), text) << path;
  }
}

}  // namespace
}  // namespace chimera
