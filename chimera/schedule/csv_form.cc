// Reading: each word is a stage, an op and a micro-batch; the first line on which a stage is seen
// says where it lies. Writing: every action must be one that reading gives back as it is.
#include "chimera/schedule/csv_form.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/schedule/text_form.h"
#include "chimera/schedule/text_place.h"

namespace chimera {
namespace {

constexpr int kMaxCsvMicros = 1 << 24;
constexpr int kNowhere = -1;

std::optional<Op> op_of(std::string_view letters) {
  for (const Op op : {Op::kForward, Op::kBackward, Op::kBackwardInput, Op::kBackwardWeight}) {
    if (info(op).letter == letters) return op;
  }
  return std::nullopt;
}

// What to do about a word that torch has for something else; "" where it has none such.
std::string_view advice(std::string_view letters) {
  constexpr std::array<std::string_view, 7> kFollows = {
      "SEND_F", "RECV_F", "SEND_B", "RECV_B", "UNSHARD", "RESHARD", "REDUCE_GRAD"};
  if (std::find(kFollows.begin(), kFollows.end(), letters) != kFollows.end()) {
    return "; all but computation follows from it: dump with format=\"compute_only\"";
  }
  if (letters.ends_with("OVERLAP_F_B")) return "; write one action after the other, 0F7,7B3";
  return "";
}

// The name of a schedule is one line without '#' (text_form.h).
std::string name_of(std::string_view source) {
  std::string name = std::filesystem::path(source).stem().string();
  const auto unfit = [](char c) { return c == '#' || (c >= 0 && c < ' '); };
  std::replace_if(name.begin(), name.end(), unfit, '_');
  const std::string_view trimmed = trim(name);
  return trimmed.empty() ? "csv" : std::string(trimmed);
}

class CsvParser {
 public:
  CsvParser(std::string_view text, std::string_view source)
      : text_(without_byte_order_mark(text)), place_{source} {}

  Schedule parse() {
    // Empty lines at the end are no ranks. Where all is empty, npos + 1 is 0.
    const auto end = text_.find_last_not_of(" \t\r\n");
    for (const std::string_view line : split(text_.substr(0, end + 1), '\n')) {
      ++place_.line;
      row(line);
    }
    finish();
    return std::move(schedule_);
  }

 private:
  void row(std::string_view line) {
    if (place_.line > kMaxStages) place_.fail(trim(line), cat("at most ", kMaxStages, " rows"));
    Row& actions = schedule_.rows.emplace_back();
    whole_.clear();
    for (const std::string_view cell : split(line, ',')) {
      const std::string_view word = trim(cell);
      if (word.empty()) continue;  // the rank idles
      actions.push_back(action(word));
      place(word, actions.back());
      check_letter(word, actions.back());
    }
    if (actions.empty()) place_.fail(trim(line), cat("an action for rank ", place_.line - 1));
  }

  Action action(std::string_view word) const {
    constexpr std::string_view kDigits = "0123456789";
    const auto letter = std::min(word.find_first_not_of(kDigits), word.size());
    const auto last = word.find_last_not_of(kDigits);
    const auto rest = std::max(last == std::string_view::npos ? 0 : last + 1, letter);
    const std::string_view letters = word.substr(letter, rest - letter);
    const std::optional<Op> op = op_of(letters);
    if (!op || letter == 0) {
      place_.fail(word, cat("<stage><F|B|I|W><micro>, as in 0F3 or 2B1", advice(letters)));
    }
    return {.op = *op,
            .stage = static_cast<std::int16_t>(
                place_.number(word, word.substr(0, letter), 0, kMaxStages - 1, "a stage")),
            .micro = place_.number(word, word.substr(rest), 0, kMaxCsvMicros - 1, "a micro-batch")};
  }

  void place(std::string_view word, const Action& action) {
    const auto stage = static_cast<std::size_t>(action.stage);
    if (stage >= workers_.size()) workers_.resize(stage + 1, kNowhere);
    int& worker = workers_[stage];
    if (worker == kNowhere) worker = place_.line - 1;
    if (worker != place_.line - 1) {
      place_.fail(
          word, cat("stage ", stage, " on line ", worker + 1, " alone: a stage lies on one rank"));
    }
    schedule_.micros = std::max(schedule_.micros, action.micro + 1);
  }

  // Early versions of torch wrote B for the gradient of the input, and W after it.
  void check_letter(std::string_view word, const Action& action) {
    const std::pair<int, int> cell = {action.stage, action.micro};
    if (action.op == Op::kBackward) whole_.insert(cell);
    if (action.op == Op::kBackwardWeight && whole_.contains(cell)) {
      place_.fail(word, cat(action.stage, "I", action.micro, " before it, not ", action.stage, "B",
                            action.micro, ": B is the whole backward, I that of the input alone"));
    }
  }

  void finish() {
    const auto unplaced = std::find(workers_.begin(), workers_.end(), kNowhere);
    if (unplaced != workers_.end()) {
      place_.fail("end of file", cat("an action of stage ", unplaced - workers_.begin(),
                                     ", for there is one of stage ", workers_.size() - 1));
    }
    schedule_.name = name_of(place_.source);
    schedule_.placement = Placement({workers_});
    if (std::int64_t{schedule_.micros} * schedule_.stages() > kMaxCells) {
      place_.fail("end of file",
                  cat("at most ", kMaxCells / schedule_.stages(), " micro-batches with ",
                      schedule_.stages(), " stages; found ", schedule_.micros));
    }
  }

  std::string_view text_;
  TextPlace place_;
  std::vector<int> workers_;             // by stage
  std::set<std::pair<int, int>> whole_;  // of this row: stage and micro-batch of each B
  Schedule schedule_;
};

// Why the CSV has no word for an action; "" where it has one.
std::string unsayable(const Action& action) {
  if (action.pipe != 0) return cat("is of pipe ", action.pipe, ", and the CSV has one pipe");
  if (action.span != 1) return "covers several micro-batches, and in the CSV each covers one";
  if (action.age != 0) return "uses older weights, and in the CSV all use the newest";
  if (op_of(info(action.op).letter)) return "";
  return cat("is a ", info(action.op).name, ", for which the CSV has no word");
}

// Goes through the rows as a reader would, and refuses what would not be read as it is meant.
class CsvGuard {
 public:
  explicit CsvGuard(const Schedule& schedule)
      : schedule_(schedule), placed_(static_cast<std::size_t>(schedule.stages())) {}

  void check() {
    for (std::size_t worker = 0; worker < schedule_.rows.size(); ++worker) {
      const Row& row = schedule_.rows[worker];
      if (row.empty()) refuse(cat("worker ", worker, " has no action, and in the CSV each has"));
      for (const Action& action : row) check(static_cast<int>(worker), action);
    }
    check_shape();
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(ErrorCode::kUsage, cat("schedule ", schedule_.name, " cannot be written as CSV: ",
                                       why, "; use the text form (--format text)"));
  }

  [[noreturn]] void refuse(int worker, const Action& action, std::string_view why) const {
    refuse(cat(to_string(action), " of worker ", worker, " ", why));
  }

  void check(int worker, const Action& action) {
    if (const std::string why = unsayable(action); !why.empty()) refuse(worker, action, why);
    if (action.stage < 0 || action.stage >= schedule_.stages() || action.micro < 0) {
      refuse(worker, action, "is outside the schedule's shape");
    }
    if (schedule_.placement.worker(0, action.stage) != worker) {
      refuse(worker, action,
             "is not where the placement has its stage, and the CSV's placement is "
             "where actions are");
    }
    placed_[static_cast<std::size_t>(action.stage)] = true;
    micros_ = std::max(micros_, action.micro + 1);
    // torch's runtime keeps the losses in a list, in the order of these forwards, and takes that
    // of micro-batch m as the m-th.
    if (action.op == Op::kForward && action.stage == schedule_.stages() - 1 &&
        action.micro != losses_++) {
      refuse(worker, action,
             "is not in the order of micro-batches, in which "
             "torch.distributed.pipelining wants the forwards of the last stage");
    }
  }

  // The CSV has no headers, so the rows must show all there is.
  void check_shape() const {
    if (schedule_.pipes() > 1) refuse(cat("it has ", schedule_.pipes(), " pipes, the CSV has one"));
    const auto unplaced = std::find(placed_.begin(), placed_.end(), false);
    if (unplaced != placed_.end()) {
      refuse(cat("stage ", unplaced - placed_.begin(), " has no action, and in the CSV each has"));
    }
    if (micros_ != schedule_.micros) {
      refuse(cat("its actions are of ", micros_, " micro-batches, it says ", schedule_.micros));
    }
  }

  const Schedule& schedule_;
  std::vector<bool> placed_;  // by stage
  int micros_ = 0;
  int losses_ = 0;
};

}  // namespace

std::string print_csv(const Schedule& schedule) {
  CsvGuard(schedule).check();
  std::string text;
  for (const Row& row : schedule.rows) {
    std::vector<std::string> words;
    for (const Action& action : row) words.push_back(to_string(action));
    text += join(words, ",") + "\n";
  }
  return text;
}

Schedule parse_csv(std::string_view text, std::string_view source) {
  return CsvParser(text, source).parse();
}

Schedule parse_file(std::string_view text, std::string_view source) {
  const bool csv = source.ends_with(".csv") || source.ends_with(".CSV");
  return csv ? parse_csv(text, source) : parse(text, source);
}

}  // namespace chimera
