// Calls MPI: what it reports becomes an Error. Internal to transport/mpi.
#pragma once

#include <mpi.h>

#include <string>

#include "chimera/base/error.h"
#include "chimera/base/text.h"

namespace chimera {

[[nodiscard]] inline std::string mpi_error_text(int code) {
  std::string text(MPI_MAX_ERROR_STRING, '\0');
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) return cat("MPI error ", code);
  text.resize(static_cast<std::size_t>(length));
  return text;
}

inline void check_mpi(int code, const char* what) {
  if (code != MPI_SUCCESS) {
    throw Error(ErrorCode::kPeer, cat("MPI could not ", what, ": ", mpi_error_text(code)));
  }
}

}  // namespace chimera
