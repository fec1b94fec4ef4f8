#include "chimera/runtime/faults.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <stdexcept>
#include <utility>

#include "chimera/base/error.h"
#include "chimera/base/number.h"
#include "chimera/base/random.h"
#include "chimera/base/text.h"
#include "chimera/runtime/deeds.h"

namespace chimera {
namespace {

constexpr std::array<std::string_view, 4> kDeeds = {"kill", "throw", "stall", "memory"};
constexpr std::array<std::string_view, 5> kDeedKeys = {"kind", "rank", "action", "step", "seed"};
constexpr std::array<std::string_view, 6> kMessageKeys = {"kind", "rank",        "message",
                                                          "seed", "probability", "seconds"};

using Pairs = std::map<std::string_view, std::string_view>;

[[noreturn]] void refuse_fault(std::string_view text, const std::string& why) {
  throw Error(ErrorCode::kUsage,
              cat("fault '", text, "': ", why, "; for example kill@rank=2,action=17"));
}

template <std::size_t kCount>
std::optional<std::size_t> index_of(std::string_view word,
                                    const std::array<std::string_view, kCount>& words) {
  const auto found = std::ranges::find(words, word);
  if (found == words.end()) return std::nullopt;
  return static_cast<std::size_t>(found - words.begin());
}

// KIND@key=value,... or key=value,... with the kind among them.
Pairs read_pairs(std::string_view text) {
  Pairs pairs;
  std::string_view rest = text;
  const std::size_t at = text.find('@');
  if (at != std::string_view::npos || text.find('=') == std::string_view::npos) {
    pairs["kind"] = text.substr(0, at);
    if (at == std::string_view::npos) return pairs;
    rest = text.substr(at + 1);
  }
  for (const std::string_view pair : split(rest, ',')) {
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos) {
      refuse_fault(text, cat("'", pair, "' is not a pair; expected key=value"));
    }
    if (!pairs.emplace(pair.substr(0, equals), pair.substr(equals + 1)).second) {
      refuse_fault(text, cat("says ", pair.substr(0, equals), " twice"));
    }
  }
  return pairs;
}

// Takes the pairs of one text apart, and refuses what is not as it should be.
class FaultReader {
 public:
  explicit FaultReader(std::string_view text) : text_(text), pairs_(read_pairs(text)) {}

  [[nodiscard]] std::string_view kind() const {
    const auto found = pairs_.find("kind");
    if (found == pairs_.end()) refuse_fault(text_, "says no kind");
    return found->second;
  }

  void expect_keys(std::span<const std::string_view> known) const {
    for (const auto& [key, value] : pairs_) {
      if (std::ranges::find(known, key) != known.end()) continue;
      refuse_fault(text_, unknown_word(cat("key of a ", kind()), key, known));
    }
  }

  template <class Number>
  [[nodiscard]] std::optional<Number> number(std::string_view key, Number least) const {
    const auto found = pairs_.find(key);
    if (found == pairs_.end()) return std::nullopt;
    const std::string_view word = found->second;
    const auto value = parse_number<Number>(word);
    if (!value || !(*value >= least)) {
      refuse_fault(text_, cat(key, " is '", word, "'; expected a number from ", least));
    }
    return value;
  }

  [[noreturn]] void refuse(const std::string& why) const { refuse_fault(text_, why); }

 private:
  std::string_view text_;
  Pairs pairs_;
};

ActionFault read_deed(const FaultReader& reader, Deed deed, std::string_view text) {
  reader.expect_keys(kDeedKeys);
  ActionFault fault{.deed = deed,
                    .rank = reader.number<int>("rank", 0),
                    .action = reader.number<int>("action", 1),
                    .step = reader.number<int>("step", 1),
                    .seed = reader.number<std::uint64_t>("seed", 0),
                    .text = std::string(text)};
  if (!fault.seed && !(fault.rank && fault.action)) {
    reader.refuse("says not where; expected rank and action, or a seed that chooses them");
  }
  return fault;
}

FaultPlan read_harm(const FaultReader& reader, FaultKind kind) {
  reader.expect_keys(kMessageKeys);
  const auto message = reader.number<std::uint64_t>("message", 1);
  const auto probability = reader.number<double>("probability", 0);
  if (message.has_value() == probability.has_value() ||
      (probability && !(*probability > 0 && *probability <= 1))) {
    reader.refuse("expected either message, counted from 1, or probability, above 0 and up to 1");
  }
  return {.kind = kind,
          .rank = reader.number<int>("rank", 0).value_or(kEveryRank),
          .message = message.value_or(0),
          .probability = probability.value_or(0),
          .once = kind != FaultKind::kDelay,  // the others end the run
          .seed = reader.number<std::uint64_t>("seed", 0).value_or(0),
          .delay_s = reader.number<double>("seconds", 0).value_or(FaultPlan().delay_s)};
}

// The draw-th choice of a seed: from 0 to choices - 1.
int choose(std::uint64_t seed, std::size_t draw, int choices) {
  return static_cast<int>(RandomStream(seed, 0xFA17).block(0)[draw] %
                          static_cast<std::uint32_t>(choices));
}

void do_deed(const ActionFault& fault) {
  switch (fault.deed) {
    case Deed::kKill:
      kill_self();
    case Deed::kThrow:
      throw std::runtime_error(cat("thrown on purpose (fault ", fault.text, ")"));
    case Deed::kStall:
      stall();
    case Deed::kMemory:
      use_up_memory();
  }
}

}  // namespace

Fault parse_fault(std::string_view text) {
  const FaultReader reader(text);
  if (const auto deed = index_of(reader.kind(), kDeeds)) {
    return read_deed(reader, static_cast<Deed>(*deed), text);
  }
  if (const auto harm = index_of(reader.kind(), kFaultKinds)) {
    return read_harm(reader, static_cast<FaultKind>(*harm));
  }
  std::vector<std::string_view> known(kDeeds.begin(), kDeeds.end());
  known.insert(known.end(), kFaultKinds.begin(), kFaultKinds.end());
  reader.refuse(unknown_word("kind", reader.kind(), known));
}

ActionFault settle(const ActionFault& fault, const FaultRange& range) {
  const auto ranks = static_cast<int>(range.actions.size());
  const std::uint64_t seed = fault.seed.value_or(0);
  ActionFault settled = fault;
  settled.rank = fault.rank ? *fault.rank : choose(seed, 0, ranks);
  if (*settled.rank >= ranks) {
    refuse_fault(fault.text, cat("there is no rank ", *fault.rank, " among ", ranks, ", from 0"));
  }
  const int actions = range.actions[static_cast<std::size_t>(*settled.rank)];
  int step = fault.step.value_or(1);
  if (!fault.step && !fault.action) step += choose(seed, 2, range.steps);
  const int action = fault.action ? *fault.action : 1 + choose(seed, 1, actions);
  if (fault.step && action > actions) {
    refuse_fault(fault.text, cat("rank ", *settled.rank, " has ", actions,
                                 " actions in a step, so there is no action ", action));
  }
  settled.step.reset();
  settled.action = (step - 1) * actions + action;
  if (*settled.action > range.steps * actions) {
    refuse_fault(fault.text, cat("rank ", *settled.rank, " ends after ", range.steps, " steps of ",
                                 actions, " actions, before action ", *settled.action));
  }
  return settled;
}

std::function<void(const Action&)> at_action(const ActionFault& settled, int rank) {
  if (settled.rank != rank) return {};
  return [settled, begun = 0](const Action&) mutable {
    if (++begun == settled.action) do_deed(settled);
  };
}

}  // namespace chimera
