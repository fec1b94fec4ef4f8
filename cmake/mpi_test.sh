#!/usr/bin/env bash
# mpi_test.sh MPIEXEC NUMPROC_FLAG RANKS PROGRAM...: runs a test on so many ranks; where mpiexec
# cannot start processes at all (no permission, no shared memory), says why and exits with 77, which
# ctest takes for "skipped".
set -euo pipefail
mpiexec=$1 flag=$2 ranks=$3
shift 3
if ! said=$("$mpiexec" "$flag" "$ranks" true 2>&1); then
  echo "skipped: '$mpiexec $flag $ranks true' failed: $said"
  exit 77
fi
exec "$mpiexec" "$flag" "$ranks" "$@"
