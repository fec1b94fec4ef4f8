"""One process for each pipeline stage, for the comparisons with torch.distributed.pipelining.

`run` forks the processes, joins them in a gloo group over the loopback device, and returns what
rank 0's function returned. Everything has a limit: a process that fails, or that is not done in
time, ends them all, and none outlives its parent.
"""

import ctypes
import datetime
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import time
import traceback

import torch
import torch.distributed as dist

_PR_SET_PDEATHSIG = 1
_PR_SET_TIMERSLACK = 29


def run(size, function, arguments, timeout_s):
    """function(rank, size, arguments) in `size` processes; rank 0's result, or SystemExit."""
    torch.set_num_threads(1)  # before the fork: the children start no thread pool
    context = multiprocessing.get_context("fork")
    port = context.Queue()
    pipes, processes = [], []
    for rank in range(size):
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(
            target=_child, args=(rank, size, function, arguments, timeout_s, port, theirs)
        )
        process.start()
        theirs.close()
        pipes.append(ours)
        processes.append(process)
    try:
        return _collect(pipes, time.monotonic() + timeout_s)
    finally:
        for process in processes:
            process.join(5)
            if process.is_alive():
                process.kill()
                process.join()


def _collect(pipes, deadline):
    """Waits for every rank's answer in the order they come; the first failure is the program's."""
    result, waiting = None, {pipe: rank for rank, pipe in enumerate(pipes)}
    while waiting:
        ready = multiprocessing.connection.wait(waiting, max(0.0, deadline - time.monotonic()))
        if not ready:
            _end_all(f"ranks {sorted(waiting.values())} were not done in time")
        for pipe in ready:
            rank = waiting.pop(pipe)
            try:
                failed, value = pipe.recv()
            except EOFError:
                failed, value = True, "the process ended without an answer"
            if failed:
                _end_all(f"rank {rank}: {value}")
            if rank == 0:
                result = value
    return result


def _end_all(why):
    for process in multiprocessing.active_children():
        process.kill()
    sys.exit(f"error: {why}")


def _child(rank, size, function, arguments, timeout_s, port, pipe):
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    libc.prctl(_PR_SET_TIMERSLACK, 1)  # sleeps end within microseconds of what was asked
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    limit = datetime.timedelta(seconds=timeout_s)
    try:
        store = _store(rank, size, port, limit)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=limit)
        value = function(rank, size, arguments)
        dist.barrier()
        dist.destroy_process_group()
        pipe.send((False, value if rank == 0 else None))
    except BaseException:
        pipe.send((True, traceback.format_exc()))
        os._exit(1)


def _store(rank, size, port, limit):
    """Rank 0 serves the store at a port that the system picks, and tells the others."""
    if rank > 0:
        number = port.get(timeout=limit.total_seconds())
        return dist.TCPStore("127.0.0.1", number, size, False, limit)
    store = dist.TCPStore("127.0.0.1", 0, size, True, limit, wait_for_workers=False)
    for _ in range(size - 1):
        port.put(store.port)
    return store


def span_of_step(begin, end):
    """Seconds from the first rank's begin to the last rank's end; the monotonic clock is one."""
    span = torch.tensor([-begin, end], dtype=torch.float64)
    dist.all_reduce(span, op=dist.ReduceOp.MAX)
    return float(span.sum())
