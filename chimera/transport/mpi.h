// The MPI transport: ranks are processes, on one machine or on several.
//
// Messages and sums go on while a worker computes: a thread of the world's own asks MPI to get on
// with them. Nothing here blocks inside MPI once a world stands, so an abort ends every wait. Needs
// MPI_THREAD_SERIALIZED and MPI 3.1, nothing of one implementation. Built without MPI (the CMake
// option CHIMERA_MPI), the constructors throw Error (kUsage).
// Why it is as it is: docs/decisions/0013-mpi-transport.md.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "chimera/transport/transport.h"

namespace chimera {

// This process as one of those that mpirun started; one object a program, made before all worlds
// and gone after them.
class MpiProcess {
 public:
  // Initializes MPI, which waits for the other processes: past startup_s seconds it says so on the
  // error stream and ends the process with exit code 4, for nothing else can end that wait.
  explicit MpiProcess(double startup_s = 300);

  // Finalizes MPI, if all processes have got there: after an abort that not all answered it leaves
  // MPI as it is, and the program should end without delay (mpirun sees the exit code).
  ~MpiProcess();
  MpiProcess(const MpiProcess&) = delete;
  MpiProcess& operator=(const MpiProcess&) = delete;

  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;
  // Place among the processes of this machine, and how many these are.
  [[nodiscard]] int local_rank() const;
  [[nodiscard]] int local_size() const;

  struct State;
  [[nodiscard]] State& state() { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

struct MpiOptions {
  int ranks = 0;  // the world is the first so many processes; 0: all
  std::size_t part_bytes = std::size_t{1} << 30;  // larger messages travel in parts of this size
  double end_s = 60;  // how long the end of the world waits for the other ranks
};

// What the ranks of one job share. All processes make it together, those beyond `ranks` too.
class MpiWorld {
 public:
  explicit MpiWorld(MpiProcess& process, MpiOptions options = {});

  // Waits until what was sent has left and all ranks have come here: end_s at most, and a few
  // seconds after an abort.
  ~MpiWorld();
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;

  // This rank's, to be used by one thread. Once; for processes that are in the world. Its abort()
  // asks rank 0, so that all ranks get one text, and gives its own if there is no answer in a
  // second.
  [[nodiscard]] std::unique_ptr<Transport> transport();

  // Ends communication here at once, and everywhere as soon as the others hear of it, without
  // asking: for a text that all ranks get from elsewhere too. From any thread.
  void abort(const std::string& why) noexcept;

  // The text of the abort, or "". From any thread.
  [[nodiscard]] std::string aborted() const;

  // Transport::abort calls this from now on instead of asking rank 0; `spread` makes each rank call
  // MpiWorld::abort with the text that won. With an empty function: rank 0 is asked again.
  void spread_aborts_by(std::function<void(const std::string& why)> spread);

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace chimera
