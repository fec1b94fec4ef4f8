// Reads one table of a TOML file key by key and refuses what it does not know, so that a misspelt
// key is an error, not a default. Errors (kUsage) begin with the file and the key.
#pragma once

#include <toml++/toml.h>

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace chimera {

// Throws Error (kUsage) with the line of a syntax error.
[[nodiscard]] toml::table parse_toml_text(std::string_view text, std::string_view source);

// A text as TOML writes it, with quotes and escapes.
[[nodiscard]] std::string toml_text(std::string_view text);

class TomlTable {
 public:
  // `where` is the file and, for a table within it, its name: "daint.toml: p2p".
  TomlTable(const toml::table& table, std::string where)
      : table_(table), where_(std::move(where)) {}

  [[nodiscard]] bool has(std::string_view key) const { return table_.contains(key); }

  // Without a fallback the key must be there. From 0, or `open`, above 0; neither so large nor so
  // small that times and bytes made of it overflow (1e15, 1e-15).
  [[nodiscard]] double number(std::string_view key, bool open, std::optional<double> fallback = {});
  [[nodiscard]] std::int64_t integer(std::string_view key, std::int64_t low, std::int64_t high,
                                     std::optional<std::int64_t> fallback = {});
  [[nodiscard]] std::string text(std::string_view key, std::optional<std::string> fallback = {});
  // Without line ends and other control characters: it goes into comments and to terminals.
  [[nodiscard]] std::string line(std::string_view key, std::optional<std::string> fallback = {});
  [[nodiscard]] std::vector<std::string> texts(std::string_view key);
  // One number or an array of them, each as an open one above; none where the key is not there.
  [[nodiscard]] std::vector<double> numbers(std::string_view key);
  [[nodiscard]] TomlTable table(std::string_view key);
  [[nodiscard]] std::vector<TomlTable> tables(std::string_view key);  // an array of them
  [[nodiscard]] std::vector<std::string> keys() const;

  // Throws for keys that were not asked for.
  void finish() const;

  [[noreturn]] void refuse(std::string_view key, std::string_view expected) const;

 private:
  [[nodiscard]] const toml::node* find(std::string_view key, bool needed);

  const toml::table& table_;
  std::string where_;
  std::set<std::string, std::less<>> asked_;
};

}  // namespace chimera
