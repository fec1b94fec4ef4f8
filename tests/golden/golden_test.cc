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
  Spec spec;
};

const Golden kGolden[] = {
    {"gpipe", {.stages = 4, .micros = 4}},
    {"gpipe", {.stages = 4, .micros = 2}},
    {"1f1b", {.stages = 4, .micros = 4}},
    {"1f1b", {.stages = 4, .micros = 8}},
    {"1f1b", {.stages = 4, .micros = 2}},
    {"gems", {.stages = 4, .micros = 1}},
    {"gems", {.stages = 4, .micros = 4}},
    {"gems", {.stages = 3, .micros = 3}},
    {"chimera", {.stages = 2, .micros = 2}},
    {"chimera", {.stages = 4, .micros = 1}},
    {"chimera", {.stages = 4, .micros = 3}},
    {"chimera", {.stages = 4, .micros = 4}},
    {"chimera", {.stages = 4, .micros = 4, .pairs = 2}},
    {"chimera", {.stages = 4, .micros = 8}},
    {"chimera", {.stages = 4, .micros = 10}},
    {"chimera", {.stages = 8, .micros = 8}},
    {"chimera", {.stages = 8, .micros = 8, .pairs = 2}},
    {"chimera", {.stages = 8, .micros = 8, .pairs = 4}},
    {"chimera", {.stages = 2, .micros = 4, .method = Method::kDoubling}},
    {"chimera", {.stages = 4, .micros = 8, .method = Method::kDoubling}},
    {"chimera", {.stages = 4, .micros = 8, .method = Method::kDoubling, .fused = true}},
    {"chimera", {.stages = 4, .micros = 12, .method = Method::kDoubling}},
    {"chimera", {.stages = 4, .micros = 7, .method = Method::kDoubling, .fused = true}},
    {"chimera", {.stages = 4, .micros = 8, .pairs = 2, .method = Method::kDoubling}},
    {"chimera", {.stages = 4, .micros = 3, .method = Method::kHalving}},
    {"chimera", {.stages = 4, .micros = 8, .method = Method::kHalving}},
    {"pipedream", {.stages = 4, .micros = 1}},
    {"pipedream", {.stages = 4, .micros = 6}},
    {"pipedream", {.stages = 2, .micros = 2, .steps = 2}},
    {"pipedream-2bw", {.stages = 4, .micros = 4, .steps = 3}},
    {"pipedream-2bw", {.stages = 4, .micros = 2, .steps = 3}},
};

// "tests/golden/chimera_d4_n8_f2_doubling_fused.txt"
std::string path_of(const Golden& golden) {
  const auto& [name, spec] = golden;
  std::string path = cat("tests/golden/", name, "_d", spec.stages, "_n", spec.micros);
  if (spec.pairs) path += cat("_f", *spec.pairs);
  if (spec.method) path += cat('_', kMethods[static_cast<std::size_t>(*spec.method)]);
  if (spec.fused) path += "_fused";
  if (spec.steps) path += cat("_k", *spec.steps);
  return path + ".txt";
}

std::string read(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Golden, SchedulesAreThoseOnFile) {
  for (const Golden& golden : kGolden) {
    const std::string path = path_of(golden);
    const std::string text = print(generate(golden.name, golden.spec));
    if (std::getenv("CHIMERA_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
    EXPECT_EQ(read(path), text) << path;
  }
}

}  // namespace
}  // namespace chimera
