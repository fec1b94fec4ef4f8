// SmallJob: a folder with a short text and a configuration that trains on it in no time.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/cli/program.h"

namespace chimera::cli {

class SmallJob {
 public:
  SmallJob() {
    std::string text;
    for (int i = 0; i < 100; ++i)
      text += "In the beginning was the word, number " + std::to_string(i);
    write(folder.file("text"), text);
    set(folder.file("text"));
  }

  void set(const std::string& text) {
    std::string config = kConfig;
    config.replace(config.find("TEXT"), 4, text);
    write(path(), config);
  }

  [[nodiscard]] std::string path() const { return folder.file("run.toml"); }

  // `mode` of the configuration, with more words.
  [[nodiscard]] Result run_mode(const std::string& mode, std::vector<std::string> words) const {
    words.insert(words.begin(), {mode, path()});
    return run(words);
  }

  [[nodiscard]] Result train(std::vector<std::string> words = {}) const {
    return run_mode("train", std::move(words));
  }

  void expect_refused(std::vector<std::string> words, int code, const std::string& says) const {
    const auto before = folder.names();
    expect_error(train(std::move(words)), code, says);
    EXPECT_EQ(folder.names(), before) << "left something behind";
  }

  Folder folder;

 private:
  static constexpr const char* kConfig = R"(
[model]
layers = 4
hidden = 16
heads = 2
sequence = 16
[data]
text = "TEXT"
[train]
steps = 4
batch = 8
learning_rate = 1e-2
seed = 3
[pipeline]
schedule = "chimera"
stages = 4
micro_batch = 2
)";
};

// What --log wrote.
inline std::vector<nlohmann::json> log_lines(const std::string& path) {
  std::vector<nlohmann::json> lines;
  std::istringstream text(read(path));
  for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

}  // namespace chimera::cli
