#!/bin/bash
# Two machines, eight ranks: two groups of four stages, each group on a machine of its own.
# Submit in the repository's folder: sbatch examples/slurm.sh [CONFIG]. See docs/cluster.md.
#SBATCH --job-name=chimera
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=4
#SBATCH --time=12:00:00
#SBATCH --signal=USR1@60
#SBATCH --output=chimera-%j.log

srun --mpi=pmix --kill-on-bad-exit=1 build/chimera train "${1:-examples/demo.toml}" --set pipeline.width=2 --set pipeline.threads=4

# With mpirun instead, --signal=B:USR1@60 above, and exec, so that it is mpirun that gets the signal:
# exec mpirun -q -n 8 --map-by slot:PE=4 build/chimera train ...
