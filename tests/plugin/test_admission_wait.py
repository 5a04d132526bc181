"""Two sessions that compete for the host: the one that waits says what for and who holds it."""

import re

import psutil
import pytest
from bench import Bench, wait_until

from pytest_infranoise.admission import ledger
from pytest_infranoise.admission.entry import OPEN, Entry
from pytest_infranoise.plugin import summary


def holds(bench: Bench) -> bool:
    entries = (Entry.parse(path.name) for path in bench.runtime.glob("*/*/*"))
    return any(entry is not None and entry.state == OPEN for entry in entries)


def test_who_waits_names_who_holds_and_how_long_it_was(
    local_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = f"{psutil.virtual_memory().total * 6 // 10 >> 20}M"
    local_bench.task("holder", "sleep 8; touch /app/done", memory=most)
    local_bench.task("waiter", memory=most, folder="second")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(local_bench.runtime))
    monkeypatch.setattr(ledger, "TELL_SECONDS", 0.5)
    monkeypatch.setattr(summary, "LONG_WAIT_SECONDS", 1.0)
    first = local_bench.start("--infra-multipliers=1", "-n0")
    wait_until(lambda: holds(local_bench) or first.poll() is not None)
    result = local_bench.pytester.runpytest_inprocess(
        "second", "--infra-multipliers=1", "--infra-backend=local", "-p", "no:cacheprovider", "-n0"
    )
    first.communicate(timeout=60)
    said = "\n".join(result.outlines)
    assert re.search(
        rf"waiter 1x-s1 has waited .* s for .*: study \S+ \(pid {first.pid}\) holds .* in 1 trial",
        said,
    ), said
    assert re.search(r"1 trial\(s\) waited for admission, \d+ s in all, the longest \d+ s", said)
    result.assert_outcomes(passed=1)
