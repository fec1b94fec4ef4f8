// A bare MPI program for hosts_test.py: `ping_pong ROUNDS ELEMENTS`. The first and the last rank
// play ping-pong, then all add up a vector. Prints each rank's host, each round, and what came out.
#include <mpi.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 10;
  const int elements = argc > 2 ? std::atoi(argv[2]) : 1000;

  std::array<char, 64> host{};
  gethostname(host.data(), host.size() - 1);
  std::printf("rank %d of %d on %s\n", rank, ranks, host.data());

  std::vector<int> ball(static_cast<std::size_t>(elements), 0);
  const double start_s = MPI_Wtime();
  for (int round = 0; round < rounds && rank % (ranks - 1) == 0; ++round) {
    const int other = ranks - 1 - rank;
    if (rank == 0) {
      for (int& element : ball) ++element;
      MPI_Send(ball.data(), elements, MPI_INT, other, 1, MPI_COMM_WORLD);
      MPI_Recv(ball.data(), elements, MPI_INT, other, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      std::printf("round %d\n", round);
      std::fflush(stdout);
    } else {
      MPI_Recv(ball.data(), elements, MPI_INT, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(ball.data(), elements, MPI_INT, other, 2, MPI_COMM_WORLD);
    }
  }
  const double round_s = (MPI_Wtime() - start_s) / rounds;

  for (int& element : ball) element += rank;
  MPI_Allreduce(MPI_IN_PLACE, ball.data(), elements, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  const int expected = 2 * rounds + ranks * (ranks - 1) / 2;
  bool right = true;
  for (const int element : ball) right = right && element == expected;
  if (rank == 0) std::printf("%s, round trip %.6f s\n", right ? "right" : "wrong", round_s);
  MPI_Finalize();
  return right ? 0 : 1;
}
