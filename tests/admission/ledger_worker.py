"""A process that takes and gives back shares, and tells what it does, for the ledger's tests.

Usage: ledger_worker.py FOLDER EVENTS MEMORY CORES BUDGET_MEMORY BUDGET_CORES COUNT HOLD_SECONDS

Each event is one appended line: what, pid, bytes, microcores. A share counts as open from the line
`open` (written once it is granted) to `close` (written before it is given back).
"""

import os
import sys
import time
from pathlib import Path

from pytest_infranoise.admission import AdmissionLedger, Budget, Request


def main() -> None:
    folder, events, memory, cores, budget_memory, budget_cores, count, hold = sys.argv[1:]
    request = Request(int(memory), float(cores))
    budget = Budget(int(budget_memory), float(budget_cores))
    ledger = AdmissionLedger("engine", Path(folder))
    log = os.open(events, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def say(what: str) -> None:
        line = f"{what} {os.getpid()} {request.memory_bytes} {request.microcores}\n"
        os.write(log, line.encode())

    for _ in range(int(count)):
        with ledger.admit(request, budget=budget, on_wait=lambda: say("wait")):
            say("open")
            time.sleep(float(hold))
            say("close")


main()
