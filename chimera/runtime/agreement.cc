#include "chimera/runtime/agreement.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/runtime/tags.h"
#include "chimera/runtime/told.h"

namespace chimera {
namespace {

// Neither names nor values hold these.
constexpr char kPair = '\x1E', kWord = '\x1F';

std::string packed(const Facts& facts) {
  std::string text;
  for (const auto& [name, value] : facts) text += cat(name, kWord, value, kPair);
  return text;
}

Facts unpacked(std::string_view text) {
  Facts facts;
  while (!text.empty()) {
    const std::size_t end = text.find(kPair), middle = text.find(kWord);
    if (end == std::string_view::npos || middle > end) break;
    facts.emplace_back(text.substr(0, middle), text.substr(middle + 1, end - middle - 1));
    text.remove_prefix(end + 1);
  }
  return facts;
}

// Long values by their beginning.
std::string shown(std::string_view value) {
  constexpr std::size_t kMost = 60;
  if (value.size() <= kMost) return std::string(value);
  return cat(value.substr(0, kMost), "...");
}

[[noreturn]] void refuse(int rank, std::string_view name, std::string_view mine,
                         std::string_view theirs) {
  throw Error(
      ErrorCode::kUsage,
      cat("rank ", rank, " has ", name, " = ", shown(mine), ", but rank 0 has ", shown(theirs),
          "; all ranks must run the same program on the same configuration: check what "
          "each host was started with"));
}

void compare(int rank, const Facts& mine, const Facts& theirs) {
  for (std::size_t i = 0; i < std::max(mine.size(), theirs.size()); ++i) {
    static const std::pair<std::string, std::string> kMissing{"(no such fact)", ""};
    const auto& [name, value] = i < mine.size() ? mine[i] : kMissing;
    const auto& [other_name, other_value] = i < theirs.size() ? theirs[i] : kMissing;
    if (name != other_name) refuse(rank, "a program of another version, fact", name, other_name);
    if (value != other_value) refuse(rank, name, value, other_value);
  }
}

}  // namespace

void agree(Transport& transport, const Facts& facts) {
  const std::string theirs = told_by_rank_0(transport, kAgreementTag, packed(facts));
  if (transport.rank() != 0) compare(transport.rank(), facts, unpacked(theirs));
}

std::string digest(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(hash));
  return digits.data();
}

}  // namespace chimera
