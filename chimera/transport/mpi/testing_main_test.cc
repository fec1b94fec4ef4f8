#include <gtest/gtest.h>

#include <iostream>

#include "chimera/base/check.h"
#include "chimera/base/error.h"
#include "chimera/transport/mpi/leaks.h"
#include "chimera/transport/mpi/testing.h"

namespace chimera {
namespace {

MpiProcess* this_process = nullptr;  // GoogleTest hands nothing to a test but what is global

int run_all_tests() {
  try {
    MpiProcess process;
    this_process = &process;
    const int result = RUN_ALL_TESTS();
    check_leaks_now();
    return result;
  } catch (const Error& error) {
    std::cerr << "error: " << error.what() << "\n";
    return exit_code(error.code());
  }
}

}  // namespace

MpiProcess& mpi_process() {
  CHECK(this_process != nullptr);
  return *this_process;
}

}  // namespace chimera

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return chimera::run_all_tests();
}
