// chimera verify: the proof, or what is wrong and where.
#include "chimera/schedule/verify.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/cli/mode.h"
#include "chimera/cli/schedule_options.h"

namespace chimera {
namespace {

struct VerifyOptions {
  ScheduleOptions schedule;
  ReduceOption reduce;
  std::optional<int> room;
};

template <class Matches>
long count(const Program& program, const Matches& matches) {
  long total = 0;
  for (const Row& row : program.rows) total += std::count_if(row.begin(), row.end(), matches);
  return total;
}

std::string range(const std::vector<int>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  if (low == values.end()) return "0";
  return *low == *high ? cat(*low) : cat(*low, " to ", *high);
}

void print_counts(const Program& program) {
  std::cout << "actions   " << count(program, [](const Action& a) { return is_compute(a.op); })
            << " of compute, " << count(program, [](const Action& a) { return is_send(a.op); })
            << " messages, "
            << count(program, [](const Action& a) { return a.op == Op::kReduceBegin; })
            << " parts in all-reduces\n";
}

void print_proof(const Verdict& verdict) {
  std::cout << "stash     " << range(verdict.peak_stash) << " micro-batches a worker at the peak\n"
            << "weights   " << range(verdict.peak_versions)
            << " stages a worker at the peak, each version counted\n";
  int capacity = 0;
  for (const Channel& channel : verdict.channels) capacity = std::max(capacity, channel.capacity);
  std::cout << "channels  " << verdict.channels.size() << ", each able to hold ";
  if (capacity == 0) {
    std::cout << "0 messages: paired sends and receives are enough\n";
  } else {
    std::cout << "up to " << capacity << (capacity == 1 ? " message" : " messages") << "\n";
  }
  std::cout << "no violation\n";
}

int print_violations(const Program& program, const Verdict& verdict) {
  constexpr std::size_t kShown = 50;
  const std::size_t found = verdict.violations.size();
  for (std::size_t i = 0; i < std::min(found, kShown); ++i) {
    std::cout << "\n" << explain(program, verdict.violations[i]);
  }
  if (found > kShown) std::cout << "\n... and " << found - kShown << " more\n";
  std::cout << "\n" << found << (found == 1 ? " violation\n" : " violations\n");
  return kViolated;
}

int run_verify(const VerifyOptions& options) {
  const Program program = options.reduce.lower(options.schedule.load());
  if (options.room && *options.room < 0) {
    throw Error(ErrorCode::kUsage,
                cat("--room is ", *options.room, "; expected a number of messages from 0 up"));
  }
  const Verdict verdict = verify(program, options.room);
  std::cout << summary(program.source) << "; reduce " << options.reduce.policy << "\n";
  print_counts(program);
  if (!verdict.ok()) return print_violations(program, verdict);
  print_proof(verdict);
  return kOk;
}

std::string verify_footer() {
  return schedule_help() +
         "\nPuts messages, gradient all-reduces and the optimizer's step into the schedule, then\n"
         "proves for all durations: every forward and backward of every micro-batch is there "
         "once,\n"
         "on the right worker, with its input; messages match and no worker waits for ever; every\n"
         "gradient is reduced after its last contribution. Prints 'no violation' and exits with "
         "0,\n"
         "or shows each violation at its place in the worker's row and exits with 1.\n"
         "\nExamples:\n"
         "  chimera verify my_schedule.txt\n"
         "  chimera verify chimera --stages 8 --micros 16 --pairs 2 --reduce at-end";
}

}  // namespace

RunMode add_verify(CLI::App& app) {
  const auto options = std::make_shared<VerifyOptions>();
  options->schedule.add(app);
  options->reduce.add(app);
  app.add_option("--room", options->room,
                 "Messages that each channel of the transport holds where sends and receives are "
                 "paired; a schedule that needs more is refused (default: as many as it needs)")
      ->type_name("K");
  app.footer(verify_footer());
  return [options] { return run_verify(*options); };
}

}  // namespace chimera
