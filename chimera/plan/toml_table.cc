#include "chimera/plan/toml_table.h"

#include <algorithm>
#include <sstream>

#include "chimera/base/error.h"
#include "chimera/base/text.h"

namespace chimera {
namespace {

bool is_control(char letter) {
  constexpr char kDelete = 0x7F;
  return static_cast<unsigned char>(letter) < ' ' || letter == kDelete;
}

std::string seen(const toml::node& node) {
  if (node.is_table()) return "a section";
  if (const auto* array = node.as_array(); array != nullptr && node.is_array_of_tables()) {
    return cat(array->size(), " sections");
  }
  std::ostringstream out;
  node.visit([&](const auto& value) { out << value; });
  std::string text = out.str();
  std::replace_if(text.begin(), text.end(), is_control, ' ');
  constexpr std::size_t kMost = 60;
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

// Products of a few of them are finite, and so are quotients.
constexpr double kLeast = 1e-15, kMost = 1e15;

std::optional<double> number_of(const toml::node& node, bool open) {
  const auto value = node.is_number() ? node.value<double>() : std::nullopt;
  if (!value || !(*value >= (open ? kLeast : 0)) || *value > kMost) return {};
  return value;
}

}  // namespace

toml::table parse_toml_text(std::string_view text, std::string_view source) {
  try {
    return toml::parse(text, source);
  } catch (const toml::parse_error& error) {
    throw Error(ErrorCode::kUsage,
                cat(source, ":", error.source().begin.line, ": ", error.description()));
  }
}

std::string toml_text(std::string_view text) {
  std::ostringstream out;
  out << toml::value<std::string>(std::string(text));
  return out.str();
}

void TomlTable::refuse(std::string_view key, std::string_view expected) const {
  const toml::node* node = table_.get(key);
  throw Error(ErrorCode::kUsage,
              node == nullptr
                  ? cat(where_, ": ", key, " is missing; expected ", expected)
                  : cat(where_, ": ", key, " is ", seen(*node), "; expected ", expected));
}

const toml::node* TomlTable::find(std::string_view key, bool needed) {
  asked_.emplace(key);
  const toml::node* node = table_.get(key);
  if (node == nullptr && needed) refuse(key, "it to be there");
  return node;
}

double TomlTable::number(std::string_view key, bool open, std::optional<double> fallback) {
  const toml::node* node = find(key, false);
  if (node == nullptr && fallback) return *fallback;
  const auto value = node == nullptr ? std::nullopt : number_of(*node, open);
  if (!value) refuse(key, cat("a number from ", open ? kLeast : 0, " to ", kMost));
  return *value;
}

std::int64_t TomlTable::integer(std::string_view key, std::int64_t low, std::int64_t high,
                                std::optional<std::int64_t> fallback) {
  const toml::node* node = find(key, false);
  if (node == nullptr && fallback) return *fallback;
  const auto* value = node == nullptr ? nullptr : node->as_integer();
  if (value == nullptr || value->get() < low || value->get() > high) {
    refuse(key, cat("a whole number from ", low, " to ", high));
  }
  return value->get();
}

std::string TomlTable::text(std::string_view key, std::optional<std::string> fallback) {
  const toml::node* node = find(key, false);
  if (node == nullptr && fallback) return *fallback;
  const auto* value = node == nullptr ? nullptr : node->as_string();
  if (value == nullptr) refuse(key, "a text in quotes");
  return value->get();
}

std::string TomlTable::line(std::string_view key, std::optional<std::string> fallback) {
  std::string value = text(key, std::move(fallback));
  if (std::ranges::none_of(value, is_control)) return value;
  refuse(key, "a text of one line, without control characters");
}

std::vector<std::string> TomlTable::texts(std::string_view key) {
  const toml::node* node = find(key, false);
  const auto* array = node == nullptr ? nullptr : node->as_array();
  if (array == nullptr) refuse(key, "a list of texts in quotes");
  std::vector<std::string> all;
  for (const auto& element : *array) {
    const auto* value = element.as_string();
    if (value == nullptr) refuse(key, "a list of texts in quotes");
    all.push_back(value->get());
  }
  return all;
}

std::vector<double> TomlTable::numbers(std::string_view key) {
  const toml::node* node = find(key, false);
  if (node == nullptr) return {};
  std::vector<double> all;
  const auto expected = cat("a number from ", kLeast, " to ", kMost, ", or a list of them");
  const auto add = [&](const toml::node& element) {
    const auto value = number_of(element, true);
    if (!value) refuse(key, expected);
    all.push_back(*value);
  };
  if (const auto* array = node->as_array()) {
    for (const auto& element : *array) add(element);
    if (all.empty()) refuse(key, expected);
  } else {
    add(*node);
  }
  return all;
}

TomlTable TomlTable::table(std::string_view key) {
  const toml::node* node = find(key, false);
  const auto* table = node == nullptr ? nullptr : node->as_table();
  if (table == nullptr) refuse(key, cat("a section, [", key, "]"));
  return {*table, cat(where_, ": ", key)};
}

std::vector<TomlTable> TomlTable::tables(std::string_view key) {
  const toml::node* node = find(key, false);
  const auto* array = node == nullptr ? nullptr : node->as_array();
  if (array == nullptr || array->empty()) refuse(key, cat("sections, [[", key, "]]"));
  std::vector<TomlTable> all;
  for (const auto& element : *array) {
    const auto* table = element.as_table();
    if (table == nullptr) refuse(key, cat("sections, [[", key, "]]"));
    all.emplace_back(*table, cat(where_, ": ", key, " ", all.size() + 1));
  }
  return all;
}

std::vector<std::string> TomlTable::keys() const {
  std::vector<std::string> all;
  for (const auto& [key, node] : table_) all.emplace_back(key.str());
  return all;
}

void TomlTable::finish() const {
  const std::vector<std::string_view> known(asked_.begin(), asked_.end());
  for (const auto& [key, node] : table_) {
    if (asked_.contains(key.str())) continue;
    throw Error(ErrorCode::kUsage, cat(where_, ": ", unknown_word("key", key.str(), known)));
  }
}

}  // namespace chimera
