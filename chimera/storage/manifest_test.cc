#include "chimera/storage/manifest.h"

#include <gtest/gtest.h>

#include <string>

#include "chimera/base/crc32c.h"
#include "chimera/base/error.h"
#include "chimera/base/text.h"

namespace chimera {
namespace {

Manifest small_manifest() {
  Manifest manifest;
  manifest.program = "0.1";
  manifest.step = 100;
  manifest.samples = 800;
  manifest.seed = 0xFFFFFFFFFFFFFFFF;
  manifest.data = {-5, 70};
  manifest.model = {{"kind", "\"gpt2\""}, {"layers", "4"}};
  manifest.config = "[model]\nlayers = 4\n";
  manifest.files = {{"part-0000.safetensors", {1234, 0xDEADBEEF}}, {"config.toml", {19, 1}}};
  manifest.tensors = {{"wte.weight", {"part-0000.safetensors", DType::kFloat64, {101, 16}}}};
  return manifest;
}

std::string refusal(const std::string& text) {
  try {
    (void)parse_manifest(text, "F");
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Manifest, IsReadAsItWasPrinted) {
  const Manifest manifest = small_manifest();
  EXPECT_EQ(parse_manifest(print(manifest), "F"), manifest);
  EXPECT_EQ(print(parse_manifest(print(manifest), "F")), print(manifest));
}

TEST(Manifest, FindsDamageToAnyOfItsBytes) {
  const std::string text = print(small_manifest());
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    EXPECT_NE(refusal(damaged), "") << i;
    EXPECT_NE(refusal(text.substr(0, i)), "") << i;
  }
  EXPECT_NE(refusal(text + "\n"), "");
}

// With a right checksum: as another program, or another version, might write it.
std::string forged(std::string from, const std::string& old, const std::string& now) {
  from.replace(from.find(old), old.size(), now);
  const std::string body = from.substr(0, from.find(",\n \"checksum\""));
  return cat(body, ",\n \"checksum\": \"", crc_text(crc32c(body)), "\"\n}\n");
}

TEST(Manifest, RefusesWhatMakesNoSense) {
  const std::string text = print(small_manifest());
  struct Case {
    std::string old, now, says;
  };
  for (const Case& one : {Case{"\"format_version\": 1", "\"format_version\": 2", "is of format 2"},
                          {"chimera checkpoint", "something", "is no manifest"},
                          {"\"step\": 100", "\"steps\": 1", "has no 'step'"},
                          {"\"step\": 100", "\"step\": \"x\"", "another type"},
                          {"deadbeef", "deadbeex", "eight hexadecimal digits"},
                          {"\"F64\"", "\"F65\"", "type 'F65'"},
                          {"\"config.toml\"", "\"../secret\"", "no file of the folder"},
                          {"\"file\": \"part-0000", "\"file\": \"part-0001", "not among its"}}) {
    const std::string said = refusal(forged(text, one.old, one.now));
    EXPECT_NE(said.find(one.says), std::string::npos) << said << "\nexpected: " << one.says;
    EXPECT_EQ(said.rfind("F: ", 0), 0U) << said;
  }
}

}  // namespace
}  // namespace chimera
