"""A request that waits says what for, and who holds it."""

import threading
from pathlib import Path

import pytest

from pytest_infranoise.admission import AdmissionLedger, Budget, Request, Waiting, ledger
from pytest_infranoise.units import MIB

BUDGET = Budget(memory_bytes=100 * MIB, cpu_cores=4)


def test_who_waits_for_what_and_who_holds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "TELL_SECONDS", 0.05)
    (tmp_path / "own").mkdir(mode=0o700)
    one = AdmissionLedger("engine", tmp_path / "own", name="study one")
    told: list[Waiting] = []
    holds = one.admit(Request(80 * MIB, 1), budget=BUDGET)
    free = threading.Timer(1.0, holds.release)
    free.start()
    with one.admit(Request(40 * MIB, 1, "spike 3x-s1"), budget=BUDGET, tell=told.append):
        pass
    free.join()
    words = told[0].words(BUDGET, "study two")
    assert words.startswith("spike 3x-s1 has waited 0 s for 40 MiB and 1 cpu of 100 MiB and 4 cpu:")
    assert words.endswith(
        f": study one (pid {told[0].holders[0].pid}) holds 80 MiB and 1 cpu in 1 trial"
    )
    assert "this run (pid" in told[0].words(BUDGET, "study one")
    assert 1 <= len(told) <= 20
