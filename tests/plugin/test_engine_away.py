"""An engine that is away says nothing about a parameter set: waited for, then the run halts."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from bench import Bench, wait_until
from engine_door import EngineDoor
from required import missing_engine

STUDY = "--infra-study=study"
SWEEP = ("--infra-multipliers=1,2", "--infra-samples=2", STUDY, "--infra-exit=study")

SHAKY = """
from pathlib import Path

from pytest_infranoise.backends.local.backend import LocalBackend
from pytest_infranoise.errors import SandboxError

AWAY = Path(__file__).parent / "away"
real = LocalBackend.open

def open_(self, request):
    if AWAY.exists():
        raise SandboxError({cause!r}, "no sandbox")
    return real(self, request)

LocalBackend.open = open_
LocalBackend.outage = lambda self: "nobody at home" if {outage} and AWAY.exists() else None
"""


@pytest.fixture
def shaky(local_bench: Bench) -> Callable[..., Path]:
    """Make an engine that is away as long as a file is there; return the file."""

    def make(*, cause: str = "engine", outage: bool = True) -> Path:
        text = SHAKY.format(cause=cause, outage=outage)
        (local_bench.path / "conftest.py").write_text(text)
        return local_bench.path / "away"

    return make


def records_of(bench: Bench) -> list[dict[str, Any]]:
    return bench.records(bench.path / "study")


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_an_engine_that_never_comes_back_leaves_the_plan_for_later(
    local_bench: Bench, shaky: Callable[..., Path], workers: str
) -> None:
    local_bench.task("calm", "touch /app/done")
    away = shaky()
    away.touch()
    result = local_bench.run(*SWEEP, "--infra-engine-timeout=0.3", workers)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    records = records_of(local_bench)
    assert 1 <= len(records) <= 2  # one for each process that ran into it
    assert {(item["outcome"], item["cause"]) for item in records} == {
        ("infra_error", "engine_away")
    }
    assert "Traceback" not in result.stdout.str() + result.stderr.str()
    result.stdout.fnmatch_lines(
        [
            "*infranoise: nobody at home; waiting up to 0.3 s for it (--infra-engine-timeout)",
            "*infranoise: the engine did not answer for 0.3 s; nobody at home; running trials*",
            "lost while the engine was away: * in no rate; not measured yet: calm *",
            "4 trial(s) did not run: the engine did not answer for 0.3 s; nobody at home; *resume*",
            "exit code 2: the run came to a halt before every trial was measured",
        ]
    )
    away.unlink()
    again = local_bench.run(STUDY, "--infra-resume", "--infra-retry-infra-errors", "-n0")
    assert again.ret == 0, again.stdout.str()
    again.stdout.fnmatch_lines(["*4 of 4 trials", "1x * 2 * 100.0%*", "2x * 2 * 100.0%*"])


def test_an_engine_that_comes_back_costs_an_attempt_and_no_trial(
    local_bench: Bench, shaky: Callable[..., Path]
) -> None:
    local_bench.task("calm", "touch /app/done")
    away = shaky()
    away.touch()
    process = local_bench.start(*SWEEP, "-n0")
    journal = local_bench.path / "study" / "trials.jsonl"
    wait_until(lambda: journal.exists() and b"engine_away" in journal.read_bytes())
    away.unlink()
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    assert [(item["attempt"], item["cause"]) for item in records_of(local_bench)[:2]] == [
        (1, "engine_away"),
        (2, None),
    ]
    assert "infranoise: the engine answers again, after" in output
    assert "lost while the engine was away: 1 attempt of 1 trial, in no rate; each" in output


def test_a_marked_test_waits_for_the_engine_too(
    local_bench: Bench, shaky: Callable[..., Path]
) -> None:
    away = shaky()
    local_bench.pytester.makepyfile(
        f"""
        import pytest

        @pytest.mark.infra(memory="32M")
        @pytest.mark.parametrize("n", [1, 2])
        def test_it(infra_sandbox, n):
            open({str(away)!r}, "w")
            infra_sandbox.exec("true")
        """
    )
    result = local_bench.pytester.runpytest_subprocess(
        "--infra-backend=local", STUDY, "--infra-engine-timeout=0.3"
    )
    assert result.ret == pytest.ExitCode.INTERRUPTED
    first, second = records_of(local_bench)
    assert first["outcome"] == "passed"
    assert second["cause"] == "engine_away"


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_the_same_failure_over_and_over_ends_the_run_early(
    local_bench: Bench, shaky: Callable[..., Path], workers: str
) -> None:
    local_bench.task("calm", "touch /app/done")
    shaky(cause="sandbox_start", outage=False).touch()
    result = local_bench.run(
        "--infra-multipliers=1,2", "--infra-samples=6", STUDY,
        "--infra-exit=study", "--infra-max-consecutive-infra=3", workers,
    )  # fmt: skip
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert 3 <= len(records_of(local_bench)) <= 6  # what ran beside the third ends
    said = "3 trials in a row ended by sandbox_start (calm; --infra-max-consecutive-infra); the la"
    assert result.stdout.str().count(f"infranoise: {said}") == 1
    result.stdout.fnmatch_lines([f"* trial(s) did not run: {said}st: *resume goes on"])


# --- a real engine behind a door ---


@pytest.fixture
def door(tmp_path: Path, one_bench: Bench, docker_backend: Any, monkeypatch: Any) -> Iterator[Any]:
    host = docker_backend.endpoint.host
    if not host.startswith("unix://"):
        missing_engine("docker", "it does not listen on a socket of this host")
    door = EngineDoor(host, tmp_path / "door.sock")
    monkeypatch.setenv("DOCKER_HOST", door.address)
    yield door
    door.close()


def test_a_docker_engine_that_dies_under_a_trial_is_waited_for(
    one_bench: Bench, door: EngineDoor
) -> None:
    one_bench.task("calm", "echo begun; sleep 2; touch /app/done")
    process = one_bench.start("--infra-multipliers=1", STUDY, "-n0")
    ledger = one_bench.runtime
    wait_until(lambda: [path for path in ledger.glob("*/admission-*/*") if ".o." in path.name])
    wait_until(lambda: _is_open(door, one_bench))
    door.shut()
    journal = one_bench.path / "study" / "trials.jsonl"
    wait_until(lambda: journal.exists() and b"engine_away" in journal.read_bytes())
    door.open()
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    first, second = records_of(one_bench)
    assert (first["cause"], second["outcome"]) == ("engine_away", "passed")
    assert "door.sock) does not answer" in first["detail"]
    assert _containers(one_bench) == []


def _containers(bench: Bench) -> list[str]:
    from pytest_infranoise.backends.docker.backend import DockerBackend

    manifest = json.loads((bench.path / "study" / "manifest.json").read_text())
    backend = DockerBackend()
    try:
        label = {"label": f"pytest-infranoise={manifest['study']}"}
        return [item["Id"] for item in backend.client.api.containers(all=True, filters=label)]
    finally:
        backend.close()


def _is_open(door: EngineDoor, bench: Bench) -> bool:
    return (bench.path / "study" / "manifest.json").exists() and bool(_containers(bench))
