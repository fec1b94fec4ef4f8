// The scanner reads one line at a time; a line is a header ("key: value") or a worker's row. Rows
// count from the first line that is no header. Each error names source, line and word.
#include "chimera/schedule/text_form.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/schedule/text_place.h"

namespace chimera {
namespace {

constexpr int kMaxWorkers = kMaxStages;
constexpr int kMaxMicros = 1 << 24;
constexpr int kMaxAge = 32767;

class Parser {
 public:
  Parser(std::string_view text, std::string_view source)
      : text_(without_byte_order_mark(text)), place_{source} {}

  Schedule parse() {
    for (const std::string_view line : split(text_, '\n')) {
      ++place_.line;
      const std::string_view content = trim(line.substr(0, line.find('#')));
      const auto colon = content.find(':');
      if (colon != std::string_view::npos) {
        header(trim(content.substr(0, colon)), trim(content.substr(colon + 1)));
      } else if (!content.empty()) {
        row(content);
      }
    }
    finish();
    return std::move(schedule_);
  }

 private:
  void header(std::string_view key, std::string_view value) {
    constexpr std::array<std::string_view, 6> kKeys = {"name",  "stages", "workers",
                                                       "pipes", "micros", "placement"};
    if (!schedule_.rows.empty()) place_.fail(key, "headers before the first row");
    if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end()) {
      place_.fail(key, cat("one of the headers ", join(kKeys)));
    }
    if (!seen_.emplace(std::string(key), place_.line).second) place_.fail(key, "each header once");
    if (key == "name") {
      if (value.empty()) place_.fail(key, "a name after the colon");
      schedule_.name = value;
    } else if (key == "placement") {
      placement(value);
    } else {
      counts_[std::string(key)] = place_.number(
          value, value, 1, key == "micros" ? kMaxMicros : kMaxStages, cat("a number of ", key));
    }
  }

  void placement(std::string_view value) {
    std::vector<std::vector<int>> map;
    for (const std::string_view pipe : split(value, ';')) {
      auto& workers = map.emplace_back();
      for (const std::string_view word : split(pipe, ',')) {
        workers.push_back(place_.number(word, trim(word), 0, kMaxWorkers - 1, "a worker"));
      }
    }
    try {
      schedule_.placement = Placement(std::move(map));
    } catch (const Error& error) {
      place_.fail(value, cat("a placement, one list of workers per pipe (", error.what(), ")"));
    }
  }

  // All headers are there and agree with the placement.
  void check_headers() {
    for (const char* key : {"name", "stages", "workers", "pipes", "micros", "placement"}) {
      if (!seen_.contains(key)) place_.fail("", cat("the header '", key, ":' before the rows"));
    }
    const auto agree = [&](const std::string& key, int placed) {
      if (counts_[key] != placed) {
        place_.line = seen_[key];
        place_.fail(cat(counts_[key]), cat(placed, " ", key, ", as in the placement"));
      }
    };
    agree("stages", schedule_.stages());
    agree("workers", schedule_.workers());
    agree("pipes", schedule_.pipes());
    schedule_.micros = counts_["micros"];
    if (std::int64_t{schedule_.micros} * schedule_.stages() > kMaxCells) {
      place_.line = seen_["micros"];
      place_.fail(cat(schedule_.micros), cat("at most ", kMaxCells / schedule_.stages(),
                                             " micros with ", schedule_.stages(), " stages"));
    }
  }

  // A worker without actions is written "-".
  void row(std::string_view content) {
    if (schedule_.rows.empty()) check_headers();
    if (static_cast<int>(schedule_.rows.size()) == schedule_.workers()) {
      place_.fail(content.substr(0, content.find(',')),
                  cat("no more rows than the ", schedule_.workers(), " workers"));
    }
    auto& actions = schedule_.rows.emplace_back();
    if (content == "-") return;
    for (const std::string_view word : split(content, ',')) actions.push_back(action(trim(word)));
  }

  Action action(std::string_view word) const {
    constexpr std::string_view kForm =
        "<stage><F|B|I|W|R|S><micro>[+span][@pipe][~age], as in 0F3 or 2B1@1";
    const auto letter = word.find_first_not_of("0123456789");
    if (letter == 0 || letter == std::string_view::npos) place_.fail(word, kForm);
    Action result{.op = op(word, word[letter])};
    result.stage = static_cast<std::int16_t>(
        place_.number(word, word.substr(0, letter), 0, schedule_.stages() - 1, "a stage"));
    std::string_view rest = word.substr(letter + 1);
    if (result.op == Op::kStep && rest.find_first_of("+@~") != std::string_view::npos) {
      place_.fail(word, "<stage>S<micro> alone for a step");
    }
    if (const auto tilde = rest.find('~'); tilde != std::string_view::npos) {
      result.age = static_cast<std::int16_t>(
          place_.number(word, rest.substr(tilde + 1), 0, kMaxAge, "an age of weights, in steps"));
      rest = rest.substr(0, tilde);
    }
    if (const auto at = rest.find('@'); at != std::string_view::npos) {
      result.pipe = static_cast<std::int16_t>(
          place_.number(word, rest.substr(at + 1), 0, schedule_.pipes() - 1, "a pipe"));
      rest = rest.substr(0, at);
    }
    if (const auto plus = rest.find('+'); plus != std::string_view::npos) {
      result.span = static_cast<std::uint8_t>(
          place_.number(word, rest.substr(plus + 1), 1, std::min(255, schedule_.micros), "a span"));
      rest = rest.substr(0, plus);
    }
    result.micro = place_.number(word, rest, 0, schedule_.micros - result.span, "a micro-batch");
    return result;
  }

  Op op(std::string_view word, char letter) const {
    for (std::size_t i = 0; i < kOps.size(); ++i) {
      const Op op = static_cast<Op>(i);
      if (in_schedule(op) && kOps[i].letter[0] == letter) return op;
    }
    place_.fail(word, "one of the ops F, B, I, W, R, S");
  }

  void finish() {
    if (schedule_.rows.empty()) check_headers();
    if (static_cast<int>(schedule_.rows.size()) != schedule_.workers()) {
      place_.fail("end of file",
                  cat(schedule_.workers(), " rows, one a worker; found ", schedule_.rows.size()));
    }
  }

  std::string_view text_;
  TextPlace place_;
  std::map<std::string, int> seen_;    // header -> line
  std::map<std::string, int> counts_;  // header -> value
  Schedule schedule_;
};

}  // namespace

std::string print(const Schedule& schedule) {
  std::vector<std::string> pipes;
  for (int pipe = 0; pipe < schedule.pipes(); ++pipe) {
    std::vector<int> workers;
    for (int stage = 0; stage < schedule.stages(); ++stage) {
      workers.push_back(schedule.placement.worker(pipe, stage));
    }
    pipes.push_back(join(workers, ","));
  }
  std::string text = cat("name: ", schedule.name, "\nstages: ", schedule.stages(),
                         "\nworkers: ", schedule.workers(), "\npipes: ", schedule.pipes(),
                         "\nmicros: ", schedule.micros, "\nplacement: ", join(pipes, ";"), "\n");
  for (const Row& row : schedule.rows) {
    std::vector<std::string> words;
    for (const Action& action : row) words.push_back(to_string(action));
    text += (words.empty() ? "-" : join(words, ",")) + "\n";
  }
  return text;
}

Schedule parse(std::string_view text, std::string_view source) {
  return Parser(text, source).parse();
}

}  // namespace chimera
