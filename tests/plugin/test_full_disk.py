"""A disk of the host that somebody fills beside a trial, and one that the trial fills itself."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench import Bench
from required import missing_engine
from small_disk import small_disk

FILLS_IT = """
import os
from pathlib import Path

from pytest_infranoise.backends.local.backend import LocalBackend

FILE = Path(os.environ["INFRANOISE_LOCAL_DIR"]) / "neighbour"
real = LocalBackend.open

def open_(self, request):
    FILE.unlink(missing_ok=True)
    sandbox = real(self, request)
    if request.trial.startswith(("beside", "silent")):
        with FILE.open("wb", buffering=0) as opened:
            for size in (1 << 20, 4096):
                try:
                    while opened.write(bytes(size)) == size: pass
                except OSError:
                    pass
    return sandbox

LocalBackend.open = open_
"""
WRITE = "dd if=/dev/zero of=/app/out bs=1M"
TEST = """#!/bin/sh
[ "$(wc -c </app/out)" = 1048576 ] && echo 1 >/logs/verifier/reward.txt && exit
echo 0 >/logs/verifier/reward.txt
"""


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    if os.geteuid() != 0:
        missing_engine("local", "a small disk can only be mounted by root")
    with small_disk(tmp_path) as place:
        monkeypatch.setenv("INFRANOISE_LOCAL_DIR", str(place))
        yield place


def test_a_full_disk_is_the_hosts_affair_unless_the_trial_filled_it(
    local_bench: Bench, disk: Path
) -> None:
    (local_bench.path / "conftest.py").write_text(FILLS_IT)
    for name, solve in (
        ("alone", f"{WRITE} count=1"),
        ("beside", f"{WRITE} count=1"),
        ("silent", "true"),
        ("greedy", WRITE),
        ("talks", "echo No space left on device"),
    ):
        local_bench.task(name, solve, test=TEST)
    local_bench.run("--infra-multipliers=1", "-n0")
    records = {record["task"]: record for record in local_bench.records()}
    said = {name: (record["outcome"], record["cause"]) for name, record in records.items()}
    assert said["alone"] == ("passed", None)
    assert said["beside"] == ("infra_error", "host_disk")
    assert records["beside"]["detail"].startswith("the host's disk was full; the trial's own files")
    assert said["greedy"] == ("failed", None)
    assert said["talks"] == ("failed", None)
    full = [name for name, item in records.items() if "disk was full" in " ".join(item["notes"])]
    assert sorted(full) == ["beside", "greedy", "silent"]
