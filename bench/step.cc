#include "bench/step.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>

#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/runtime/launch.h"
#include "chimera/runtime/tags.h"
#include "chimera/runtime/worker.h"
#include "chimera/transport/checked.h"
#include "chimera/transport/mpi.h"

namespace chimera {
namespace {

class ThreadRanks final : public Ranks {
 public:
  void run(int ranks, const std::function<void(Transport&)>& body) override {
    launch_local(ranks, {}, body);
  }
  bool speaks() const override { return true; }
};

class ProcessRanks final : public Ranks {
 public:
  ProcessRanks() : world_(process_), transport_(checked(world_.transport())) {}

  void run(int ranks, const std::function<void(Transport&)>& body) override {
    if (ranks != process_.size()) {
      throw Error(ErrorCode::kUsage, cat("this case needs ", ranks, " ranks, but mpirun started ",
                                         process_.size(), "; expected as many"));
    }
    try {
      body(*transport_);
    } catch (const Error& error) {
      transport_->abort(error.what());
      throw;
    }
  }
  bool speaks() const override { return process_.rank() == 0; }

 private:
  MpiProcess process_;
  MpiWorld world_;
  std::unique_ptr<Transport> transport_;
};

}  // namespace

std::unique_ptr<Ranks> make_ranks(const std::string& transport) {
  if (transport == "local") return std::make_unique<ThreadRanks>();
  if (transport == "mpi") return std::make_unique<ProcessRanks>();
  throw Error(ErrorCode::kUsage, cat("unknown transport '", transport, "'; expected local or mpi"));
}

std::vector<double> gather_numbers(Transport& transport, double mine) {
  std::vector<double> numbers(static_cast<std::size_t>(transport.size()));
  std::vector<int> ranks(numbers.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  numbers[static_cast<std::size_t>(transport.rank())] = mine;
  const Buffer buffer{DType::kFloat64, reinterpret_cast<std::byte*>(numbers.data()),
                      numbers.size()};
  finish(*transport.all_reduce_sum(buffer, ranks, kStepTag));
  return numbers;
}

double run_step(const StepSetting& setting, Transport& transport) {
  const int workers = setting.program.source.workers();
  const Seat seat{setting.groups, transport.rank() / workers, transport.rank() % workers};
  Stages stages;
  for (const int stage : setting.program.source.placement.stages_of(seat.worker)) {
    stages[stage] = std::make_unique<WaitingStage>(setting.stage(stage));
  }
  Worker worker(setting.program, seat, std::move(stages), transport, {});
  worker.run_row();
  (void)gather_numbers(transport, 0);  // all begin together
  const std::vector<Interval> row = worker.run_row();
  const std::vector<double> starts = gather_numbers(transport, row.front().start_s);
  const std::vector<double> ends = gather_numbers(transport, row.back().end_s);
  return std::ranges::max(ends) - std::ranges::min(starts);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace chimera
