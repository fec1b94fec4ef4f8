// The MPI transport beside bare MPI: the latency of messages, and the bandwidth of all-reduce, on
// the same buffers, in turns within one run so that a noisy moment touches both alike.
//
//     mpirun -n 2 build/transport_speed --messages
//     mpirun -n 8 build/transport_speed --sums
//
// Prints a table to the error stream and one JSON object a line. Times are medians over the
// repetitions of the slowest rank's: one way for a message (half a round trip), one sum.
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "chimera/base/clock.h"
#include "chimera/base/error.h"
#include "chimera/transport/mpi.h"

namespace chimera {
namespace {

struct Options {
  bool messages = false, sums = false;
  std::vector<std::size_t> message_bytes = {8, 64, 1024, 4096, 16384, 65536, 1 << 20, 4 << 20};
  std::vector<std::size_t> sum_bytes = {64, 4096, 65536, 1 << 20, 4 << 20, 16 << 20, 64 << 20};
  int repetitions = 0;  // 0: as many as fit a second or so
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int repetitions(const Options& options, std::size_t bytes) {
  if (options.repetitions > 0) return options.repetitions;
  return static_cast<int>(std::clamp<std::size_t>((std::size_t{256} << 20) / (bytes + 1), 11, 501));
}

// Seconds that the slowest rank took; all ranks begin together.
double time_of(const std::function<void()>& work) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = now_s();
  work();
  double taken = now_s() - begin, slowest = 0;
  MPI_Allreduce(&taken, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

struct Comparison {
  std::vector<double> ours_s = {}, bare_s = {};

  void add(int i, const std::function<void()>& ours, const std::function<void()>& bare) {
    const auto run = [&](bool is_ours) {
      (is_ours ? ours_s : bare_s).push_back(time_of(is_ours ? ours : bare));
    };
    run(i % 2 == 0);  // neither always has the caches warmed by the other
    run(i % 2 != 0);
  }
};

// ---- messages

constexpr int kRoundTrips = 10;  // of one measurement

void our_round_trips(Transport& transport, std::size_t bytes) {
  const int rank = transport.rank();
  if (rank == 0)
    transport.send(make_message(DType::kUInt8, {static_cast<std::int64_t>(bytes)}), 1, 1);
  for (int i = 0; i < kRoundTrips; ++i) {
    Message ball = transport.recv(1 - rank, 1, kForever).value();
    if (rank == 1 || i + 1 < kRoundTrips) transport.send(std::move(ball), 1 - rank, 1);
  }
}

void bare_round_trips(int rank, std::vector<std::byte>& buffer) {
  const int bytes = static_cast<int>(buffer.size());
  for (int i = 0; i < kRoundTrips; ++i) {
    if (rank == 0) MPI_Send(buffer.data(), bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    MPI_Recv(buffer.data(), bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Send(buffer.data(), bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
  }
}

void compare_messages(const Options& options, Transport& transport) {
  const int rank = transport.rank();
  if (rank == 0) std::fprintf(stderr, "%10s %12s %12s\n", "bytes", "ours us", "MPI us");
  for (const std::size_t bytes : options.message_bytes) {
    std::vector<std::byte> buffer(bytes);
    Comparison seen;
    const auto ours = [&] {
      if (rank < 2) our_round_trips(transport, bytes);
    };
    const auto bare = [&] {
      if (rank < 2) bare_round_trips(rank, buffer);
    };
    for (int i = 0; i < repetitions(options, bytes * kRoundTrips); ++i) seen.add(i, ours, bare);
    if (rank > 0) continue;
    const double ours_s = median(seen.ours_s) / kRoundTrips / 2;
    const double bare_s = median(seen.bare_s) / kRoundTrips / 2;
    std::fprintf(stderr, "%10zu %12.2f %12.2f\n", bytes, ours_s * 1e6, bare_s * 1e6);
    std::cout << nlohmann::ordered_json{{"what", "message"},
                                        {"bytes", bytes},
                                        {"ranks", transport.size()},
                                        {"ours_s", ours_s},
                                        {"mpi_s", bare_s}}
                     .dump()
              << std::endl;
  }
}

// ---- sums

void compare_sums(const Options& options, Transport& transport) {
  const int ranks = transport.size();
  std::vector<int> members(static_cast<std::size_t>(ranks));
  std::iota(members.begin(), members.end(), 0);
  if (transport.rank() == 0) {
    std::fprintf(stderr, "%6s %10s %12s %12s %10s\n", "ranks", "bytes", "ours us", "MPI us",
                 "MPI/ours");
  }
  for (const std::size_t bytes : options.sum_bytes) {
    std::vector<float> values(bytes / sizeof(float));
    Comparison seen;
    const auto ours = [&] {
      const Buffer buffer{DType::kFloat32, reinterpret_cast<std::byte*>(values.data()),
                          values.size()};
      finish(*transport.all_reduce_sum(buffer, members, 1));
    };
    const auto bare = [&] {
      MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_FLOAT,
                    MPI_SUM, MPI_COMM_WORLD);
    };
    for (int i = 0; i < repetitions(options, bytes); ++i) seen.add(i, ours, bare);
    if (transport.rank() > 0) continue;
    const double ours_s = median(seen.ours_s), bare_s = median(seen.bare_s);
    std::fprintf(stderr, "%6d %10zu %12.1f %12.1f %10.2f\n", ranks, bytes, ours_s * 1e6,
                 bare_s * 1e6, bare_s / ours_s);
    std::cout << nlohmann::ordered_json{{"what", "sum"},   {"bytes", bytes},
                                        {"ranks", ranks},  {"ours_s", ours_s},
                                        {"mpi_s", bare_s}, {"bandwidth_ratio", bare_s / ours_s}}
                     .dump()
              << std::endl;
  }
}

void compare(const Options& options) {
  MpiProcess process;
  MpiWorld world(process);
  const std::unique_ptr<Transport> transport = world.transport();
  if (transport->size() < 2) {
    throw Error(ErrorCode::kUsage, "one rank has nobody to talk to; start it with mpirun -n 2");
  }
  if (options.messages) compare_messages(options, *transport);
  if (options.sums) compare_sums(options, *transport);
}

}  // namespace
}  // namespace chimera

int main(int argc, char** argv) {
  CLI::App app("The MPI transport beside bare MPI");
  chimera::Options options;
  app.add_flag("--messages", options.messages, "Latency of messages, rank 0 with rank 1");
  app.add_flag("--sums", options.sums, "All-reduce over all ranks");
  app.add_option("--message-bytes", options.message_bytes)->delimiter(',');
  app.add_option("--sum-bytes", options.sum_bytes)->delimiter(',');
  app.add_option("--repetitions", options.repetitions, "The median of these is printed");
  CLI11_PARSE(app, argc, argv);
  try {
    chimera::compare(options);
  } catch (const chimera::Error& error) {
    std::cerr << "transport_speed: error: " << error.what() << "\n";
    return chimera::exit_code(error.code());
  }
}
