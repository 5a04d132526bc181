"""How much admission costs, as a ratio against a bare lock that every process takes in turn.

Run: python benchmarks/admission.py [PROCESSES] [CYCLES]

Each process takes and gives back a share CYCLES times, as fast as it can. The bare lock is a
`flock` taken and released twice per cycle, the least that such a ledger needs (once to enter, once
to leave). The last line is the part of a trial of one second that admission costs.
"""

import fcntl
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path

from pytest_infranoise.admission import AdmissionLedger, Budget, Request


def bare_lock(folder: str, cycles: int) -> None:
    for _ in range(cycles * 2):
        lock = os.open(f"{folder}/lock", os.O_RDWR | os.O_CREAT)
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.close(lock)


def room_for_all(folder: str, cycles: int) -> None:
    _cycle(folder, cycles, Budget(1000, 1000))


def room_for_two(folder: str, cycles: int) -> None:
    _cycle(folder, cycles, Budget(2, 1000))


def _cycle(folder: str, cycles: int, budget: Budget) -> None:
    ledger = AdmissionLedger("benchmark", Path(folder))
    for _ in range(cycles):
        with ledger.admit(Request(1, 0.25), budget=budget):
            pass


CASES = (bare_lock, room_for_all, room_for_two)


def run(case: int, folder: str, cycles: int, barrier: Barrier) -> None:
    barrier.wait()
    CASES[case](folder, cycles)


def measure(case: int, processes: int, cycles: int) -> float:
    """Return seconds per cycle, over all processes."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(processes + 1)
    with tempfile.TemporaryDirectory() as folder:
        workers = [
            context.Process(target=run, args=(case, folder, cycles, barrier))
            for _ in range(processes)
        ]
        for worker in workers:
            worker.start()
        barrier.wait()
        began = time.perf_counter()
        for worker in workers:
            worker.join()
        return (time.perf_counter() - began) / (processes * cycles)


def main() -> None:
    processes = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    cycles = int(sys.argv[2]) if len(sys.argv) > 2 else 300
    found = {}
    for number, case in enumerate(CASES):
        seconds = statistics.median(measure(number, processes, cycles) for _ in range(3))
        found[case.__name__] = seconds
        ratio = seconds / found["bare_lock"]
        print(f"{case.__name__:14} {seconds * 1e6:8.1f} us per cycle   {ratio:6.1f} x bare lock")
    # every process waits for the others' cycles
    share = found["room_for_two"] * processes
    print(f"a trial of 1 s among {processes} processes spends at most {share:.2%} in admission")


if __name__ == "__main__":
    main()
